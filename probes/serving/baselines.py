"""What each canary's answer should be: learned from the first healthy ones, kept on disk."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpudiag.probes.serving.canary_target import Target
from gpudiag.probes.serving.compare import Answer, Measure, likeness

SCHEMA = 1
NEEDED = 3
"""Healthy answers that make a baseline; they may differ a little, and each of them counts."""

MAX_FILE = 4 * 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The answers recorded from one model to one question; `version` is for people."""

    schema: int = SCHEMA
    model: str
    version: str
    question: str
    answers: tuple[Answer, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether it may be compared with."""
        return len(self.answers) >= NEEDED

    def likeness(self, measure: Measure, given: Answer) -> float:
        """How alike `given` is to the recorded answer that it is most like."""
        return max(likeness(measure, one, given) for one in self.answers)


@dataclass(frozen=True, slots=True)
class Judged:
    """An answer beside its baseline: its likeness where there is one, and what changed of that."""

    likeness: float | None = None
    news: str = ""


class Baselines:
    """The baselines in `folder`, one file a server, for its owner alone.

    A file that a person removes is recorded anew. What a disk refuses to keep is kept in memory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unsaved: dict[str, Baseline] = {}

    def judge(self, target: Target, answer: Answer, model: str, version: str) -> Judged:
        """Compare a sound answer, or learn from it; one that follows another's never learns."""
        known = self.of(target)
        if target.baseline not in ("", target.name):
            # The other copy may be quantised, and called by another name: that is what it is for.
            return Judged(self.compared(target, answer))
        news = _outdated(known, target, model, version) if known else ""
        if known is None or not _holds(known, target, model):
            known = Baseline(model=model, version=version, question=target.digest())
        if not known.complete:
            return Judged(None, self._learn(target, known, answer) or news)
        if news:
            self._keep(target, replace(known, version=version))
        return Judged(known.likeness(target.measure, answer), news)

    def compared(self, target: Target, answer: Answer) -> float | None:
        """The likeness of any answer, an unsound one too; None while there is no baseline."""
        known = self.of(target)
        if known is None or not known.complete:
            return None
        return known.likeness(target.measure, answer)

    def of(self, target: Target) -> Baseline | None:
        """The baseline that holds for the target; None where there is none, or it is damaged."""
        name = target.baseline or target.name
        if name in self._unsaved:
            return self._unsaved[name]
        try:
            with self._path(name).open("rb") as file:
                return _read(json.loads(file.read(MAX_FILE)))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _learn(self, target: Target, known: Baseline, answer: Answer) -> str:
        known = replace(known, answers=(*known.answers, answer))
        news = ""
        if known.complete:
            apart = 1.0 - _agreement(known, target.measure)
            if apart > target.tolerance:
                known = replace(known, answers=())
                news = "healthy answers differ among themselves: no baseline; set another prompt"
            else:
                news = f"recorded a baseline of {known.model or 'its model'} from {NEEDED} answers"
        self._keep(target, known)
        return news

    def _keep(self, target: Target, known: Baseline) -> None:
        path = self._path(target.name)
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(path, json.dumps(asdict(known)).encode())
        except OSError:
            self._unsaved[target.name] = known
        else:
            self._unsaved.pop(target.name, None)

    def _path(self, name: str) -> Path:
        return self._folder / f"{quote(name, safe='')}.json"


def write_private(path: Path, data: bytes) -> None:
    """Replace the file at once, readable by its owner alone. Raises `OSError`."""
    fresh = path.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    os.replace(fresh, path)


def _read(held: Any) -> Baseline | None:
    """The baseline as written. Raises `ValueError`, `TypeError` or `KeyError` where it is none."""
    if held["schema"] != SCHEMA:
        return None
    return Baseline(
        model=str(held["model"]),
        version=str(held["version"]),
        question=str(held["question"]),
        answers=tuple(_answer(one) for one in held["answers"]),
    )


def _answer(held: Any) -> Answer:
    score = held["score"]
    return Answer(
        text=str(held["text"]),
        vector=tuple(float(value) for value in held["vector"]),
        label=str(held["label"]),
        score=None if score is None else float(score),
    )


def _holds(known: Baseline, target: Target, model: str) -> bool:
    """Whether a baseline is of this question and, where it is named, this model."""
    return model in ("", known.model) and known.question == target.digest()


def _outdated(known: Baseline, target: Target, model: str, version: str) -> str:
    if not _holds(known, target, model):
        what = "the question is another"
        if model not in ("", known.model):
            what = f"the model is {model}, it was {known.model or 'not named'}"
        return f"{what}: a new baseline is recorded"
    if version and known.version != version:
        return f"version {version}, the baseline is of {known.version or 'none named'} and stays"
    return ""


def _agreement(known: Baseline, measure: Measure) -> float:
    """How alike each recorded answer is to the first, at the least."""
    first, *others = known.answers
    return min(likeness(measure, first, other) for other in others)
