"""How often the rules are right: `make scoreboard` replays every incident and counts."""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpudiag.agent.findings.finding import Finding, subject_matches
from gpudiag.agent.recording.expectations import Expect
from gpudiag.agent.replay import Run, fresh_engine, load, replay

INCIDENTS = Path(__file__).parent / "incidents"
DAY = 86400.0
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Answer:
    """One expectation of an incident and what was said: `symptom/cause` both, seconds to tell."""

    expected: str
    said: str
    delay: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """One incident: its answers, what it raised that no one expected, and its length in days."""

    answers: tuple[Answer, ...]
    unexpected: tuple[str, ...]
    days: float
    healthy: bool


def score(path: Path) -> Score:
    """Replay one incident file through the real rules."""
    timeline = load(path)
    run = replay(timeline, fresh_engine())
    wanted = timeline.expectations.expect
    return Score(
        answers=tuple(_answer(expect, run) for expect in wanted if expect.state == "firing"),
        unexpected=tuple(_name(f) for f in _loud(run) if not any(_of(e, f) for e in wanted)),
        days=(timeline.end - timeline.start) / DAY,
        healthy=path.parent.name == "healthy",
    )


def scores(paths: Iterable[Path]) -> list[Score]:
    """Those of many files, on both cores."""
    with ProcessPoolExecutor(2) as pool:
        return list(pool.map(score, paths, chunksize=8))


def table(found: Iterable[Score]) -> str:
    """Markdown: a line per symptom, then what was confused, then the healthy days."""
    found = list(found)
    answers = [answer for one in found for answer in one.answers]
    lines = ["| symptom | incidents | right cause | other cause | missed | median time to tell |"]
    lines.append("|---|---|---|---|---|---|")
    for symptom in sorted({a.expected.partition("/")[0] for a in answers}):
        of = [a for a in answers if a.expected.startswith(f"{symptom}/")]
        lines.append(_row(symptom, of))
    lines.append(_row("**all**", answers))
    return "\n".join([*lines, "", _confused(answers), "", _quiet(found)]) + "\n"


def _answer(expect: Expect, run: Run) -> Answer:
    accepted = expect.causes or ("any",)
    fitting = [f for f in run.findings() if f.state == "firing" and _of(expect, f)]
    fitting.sort(key=lambda f: f.cause not in accepted)
    if not fitting:
        return Answer(f"{expect.symptom}/{accepted[0]}", NOTHING, None)
    best = fitting[0]
    right = "any" in accepted or best.cause in accepted
    expected = best.cause if right else accepted[0]
    delay = None if best.raised_at is None else best.raised_at - best.since
    return Answer(f"{expect.symptom}/{expected}", _name(best), delay)


def _of(expect: Expect, finding: Finding) -> bool:
    return expect.symptom == finding.symptom and subject_matches(expect.subject, finding.subject)


def _loud(run: Run) -> list[Finding]:
    firing = [f for f in run.findings() if f.state == "firing"]
    return [f for f in firing if not f.explained_by and f.severity != "info"]


def _name(finding: Finding) -> str:
    return f"{finding.symptom}/{finding.cause}"


def _row(name: str, answers: list[Answer]) -> str:
    right = sum(a.said == a.expected for a in answers)
    missed = sum(a.said == NOTHING for a in answers)
    delays = [a.delay for a in answers if a.delay is not None]
    median = f"{statistics.median(delays):.0f} s" if delays else "-"
    other = len(answers) - right - missed
    return f"| {name} | {len(answers)} | {right} | {other} | {missed} | {median} |"


def _confused(answers: list[Answer]) -> str:
    wrong = Counter((a.expected, a.said) for a in answers if a.said != a.expected)
    if not wrong:
        return "Confused with another cause: none."
    listed = (f"{e} read as {s} ({n})" for (e, s), n in sorted(wrong.items()))
    return f"Confused with another cause: {', '.join(listed)}."


def _quiet(found: list[Score]) -> str:
    healthy = [one for one in found if one.healthy]
    days = sum(one.days for one in healthy)
    alarms = sum(len(one.unexpected) for one in healthy)
    return f"False alarms: {alarms} in {days:.1f} healthy days ({alarms / days:.2f} a day)."


def everything() -> str:
    """The table over every incident of the project."""
    return table(scores(sorted(INCIDENTS.rglob("*.yaml"))))


if __name__ == "__main__":
    sys.stdout.write(everything())
