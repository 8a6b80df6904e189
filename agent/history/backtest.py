"""What other thresholds would have raised, beside what the present ones raise, over one history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from gpudiag.agent.config import RuleSettings
from gpudiag.agent.history.diagnosing import Diagnosed, Progress, Question, diagnose
from gpudiag.agent.history.report import Episode, episodes

EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Raised:
    """One time that a finding fired: on which node, from when to when (None: to the end)."""

    node: str
    finding: str
    summary: str
    start: float
    end: float | None

    def to_json(self) -> dict[str, Any]:
        """The example as it is shown."""
        return {
            "node": self.node,
            "id": self.finding,
            "summary": self.summary,
            "raised_at": self.start,
            "resolved_at": self.end,
        }


@dataclass(frozen=True, slots=True)
class Compared:
    """One symptom under both settings. What folds under another finding pages nobody: not counted.

    `now` and `then` are all times it was raised, oldest first; `added` those that the present
    settings do not raise, `dropped` those that only they do; of those that both raise, `earlier`
    is by how many seconds the new ones do so sooner, at the median.
    """

    symptom: str
    settings: RuleSettings | None
    now: tuple[Raised, ...]
    then: tuple[Raised, ...]
    added: tuple[Raised, ...]
    dropped: tuple[Raised, ...]
    earlier: float
    seconds_now: float
    seconds_then: float

    def to_json(self) -> dict[str, Any]:
        """The line that stands for it."""
        return {
            "kind": "backtest",
            "symptom": self.symptom,
            "changed": self.settings is not None,
            "now": {"raised": len(self.now), "seconds": round(self.seconds_now)},
            "then": {"raised": len(self.then), "seconds": round(self.seconds_then)},
            "earlier_seconds": round(self.earlier, 1),
            "added": [one.to_json() for one in self.added],
            "dropped": [one.to_json() for one in self.dropped],
        }


@dataclass(frozen=True, slots=True)
class Backtest:
    """Both answers, and what differs."""

    now: Diagnosed
    then: Diagnosed
    symptoms: tuple[Compared, ...]


def backtest(
    question: Question, rules: Mapping[str, RuleSettings], progress: Progress, workers: int = 0
) -> Backtest:
    """Judge the history twice: with the shipped settings and with `rules` over them.

    Ctrl-C ends each of the two with what is known; raises `ServerError` before the first node.
    """
    now = diagnose(replace(question, rules={}), progress, workers)
    then = diagnose(replace(question, rules=rules, incident=None), progress, workers)
    return Backtest(now, then, compared(episodes(now), episodes(then), rules, question.end))


def compared(
    now: Iterable[Episode], then: Iterable[Episode], rules: Mapping[str, RuleSettings], end: float
) -> tuple[Compared, ...]:
    """Each symptom that `rules` change or whose times differ, the most added or dropped first."""
    before, after = _by_symptom(now), _by_symptom(then)
    found = (
        _one(symptom, rules.get(symptom), before[symptom], after[symptom], end)
        for symptom in sorted({*before, *after, *rules})
    )
    telling = (one for one in found if one.settings or one.added or one.dropped or one.earlier)
    return tuple(sorted(telling, key=lambda one: (-len(one.added) - len(one.dropped), one.symptom)))


def _by_symptom(told: Iterable[Episode]) -> defaultdict[str, list[Raised]]:
    found: defaultdict[str, list[Raised]] = defaultdict(list)
    for episode in told:
        if not episode.last.explained_by:
            found[episode.last.symptom] += [
                Raised(episode.node, episode.last.id, episode.last.summary, start, over)
                for start, over in episode.times
            ]
    for times in found.values():
        times.sort(key=lambda one: (one.start, one.node, one.finding))
    return found


def _one(
    symptom: str,
    settings: RuleSettings | None,
    now: Sequence[Raised],
    then: Sequence[Raised],
    end: float,
) -> Compared:
    pairs = [
        (old.start - new.start)
        for new in then
        if (old := next((one for one in now if _same(one, new)), None))
    ]
    return Compared(
        symptom,
        settings,
        tuple(now),
        tuple(then),
        tuple(new for new in then if not any(_same(old, new) for old in now)),
        tuple(old for old in now if not any(_same(old, new) for new in then)),
        median(pairs) if pairs else 0.0,
        _seconds(now, end),
        _seconds(then, end),
    )


def _same(one: Raised, other: Raised) -> bool:
    """Whether it is the same finding at overlapping times."""
    return (
        (one.node, one.finding) == (other.node, other.finding)
        and (one.end is None or other.start <= one.end)
        and (other.end is None or one.start <= other.end)
    )


def _seconds(times: Iterable[Raised], end: float) -> float:
    return sum((end if one.end is None else one.end) - one.start for one in times)
