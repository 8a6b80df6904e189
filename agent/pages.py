"""The runbook pages as text, whole or the section of one cause; and the dashboards' pictures."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from importlib.resources import files

from gpudiag.probes.errors import UsageError

_FOLDER = files("gpudiag.runbooks")
_PICTURES = _FOLDER.joinpath("pictures")


def names() -> list[str]:
    """The symptoms that have a page, sorted."""
    return sorted(p.name[:-3] for p in _FOLDER.iterdir() if p.name.endswith(".md"))


def page(symptom: str) -> str:
    """The page of a symptom, Markdown; raises `UsageError` where there is none."""
    if symptom not in names():
        guess = meant(symptom, names())
        raise UsageError(f"no runbook {symptom!r}; `gpudiag runbook` lists those there are.{guess}")
    return _FOLDER.joinpath(f"{symptom}.md").read_text("utf-8")


def pictures() -> str:
    """What the dashboards look like, as Markdown that shows the pictures beside it."""
    return _PICTURES.joinpath("README.md").read_text("utf-8")


def picture(name: str) -> bytes | None:
    """One of those pictures, a PNG; None where there is none of that name."""
    known = {file.name for file in _PICTURES.iterdir() if file.name.endswith(".png")}
    return _PICTURES.joinpath(name).read_bytes() if name in known else None


def meant(word: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for a word that is nearly a known one, else nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def section(symptom: str, cause: str) -> str:
    """The section of one cause, from its heading to the next of the same or a higher level."""
    lines = page(symptom).splitlines()
    headings = [(n, line) for n, line in enumerate(lines) if line.startswith("#")]
    for at, line in headings:
        level, _, title = line.partition(" ")
        if title == cause:
            ends = (n for n, other in headings if n > at and len(other.split(" ")[0]) <= len(level))
            return "\n".join(lines[at : next(ends, len(lines))])
    raise UsageError(f"the runbook {symptom!r} has no section {cause!r}: leave out the #CAUSE")
