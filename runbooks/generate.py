"""Writes the generated parts of `gpu-xid.md`: `python -m gpudiag.runbooks.generate`.

What stands between a `<!-- NAME -->` and its `<!-- /NAME -->` comes from the XID catalogue; the
rest of the page is written by hand and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpudiag.agent.rules._xid_advice import ADVICE
from gpudiag.probes.catalog import Xid, recovery_actions, xids

PAGE = Path(__file__).parent / "gpu-xid.md"


def filled(page: str) -> str:
    """The page with its generated parts made anew."""
    codes = sorted(xids().values(), key=lambda xid: xid.code)
    verdicts = [a for a in recovery_actions().values() if a.xid_154]
    page = _put(page, "verdicts", "\n".join(f"- `{a.xid_154}`: {a.meaning}." for a in verdicts))
    return _put(page, "codes", "\n\n".join("\n".join(_section(xid)) for xid in codes))


def _put(page: str, name: str, text: str) -> str:
    part = re.compile(f"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
    return part.sub(lambda _: f"\n{text}\n\n", page, count=1)


def _section(xid: Xid) -> Iterator[str]:
    yield f"### xid-{xid.code}\n"
    yield f"{xid.meaning}. At fault: {xid.fault}; severity: {xid.severity}.\n"
    yield from (f"- {point}" for point in _points(xid))


def _points(xid: Xid) -> Iterator[str]:
    steps = [f"*{step.rung}*: {step.text}" for step in ADVICE[xid.action]]
    yield " Then ".join(steps) if steps else "Nothing to do about the GPU."
    yield from filter(None, (xid.note, xid.reason))
    if xid.consequence_of:
        yield f"Beside one of these it is their consequence: {_codes(xid.consequence_of)}."
    following = [other.code for other in xids().values() if xid.code in other.consequence_of]
    if following:
        yield f"What may follow from it: {_codes(following)}."
    if xid.linked_154:
        yield f"From driver R{xid.linked_154} on, the verdict of XID 154 stands above this advice."


def _codes(codes: tuple[int, ...] | list[int]) -> str:
    return ", ".join(map(str, sorted(codes)))


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
