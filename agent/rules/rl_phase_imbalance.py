"""One phase of reinforcement learning idles the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpudiag.agent.rules._blame import Blame
from gpudiag.agent.rules._jobs import Job, jobs
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Series, Window

PHASE = "gpudiag_train_phase_seconds"
LENGTHS = "gpudiag_serving_request_generation_tokens_bucket"
BACK = 3600.0
FEW = 3

_ROLLOUT = frozenset({"rollout", "generate", "generation", "gen"})
_SYNC = frozenset({"weight_sync", "sync", "weight_update", "update_weights"})
# Phases that do not belong to every iteration.
_ASIDE = frozenset({"eval", "evaluation", "save", "checkpoint", "test", "init"})

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Cycle:
    """One job's iterations: for each phase its ranks' seconds now and before, their median."""

    job: Job
    ranks: Mapping[str, tuple[str, ...]]
    now: Mapping[str, Floats]
    before: Mapping[str, float]
    recent: Mapping[str, Floats]

    def seconds(self, phase: str) -> float:
        """How long the phase takes: as long as its slowest rank, for the next one waits."""
        return float(self.now[phase].max())

    @property
    def whole(self) -> float:
        return sum(self.seconds(phase) for phase in self.now)

    def share(self, phase: str) -> float:
        return self.seconds(phase) / self.whole if self.whole else 0.0

    def one_of(self, names: frozenset[str]) -> str | None:
        return next((phase for phase in self.now if phase in names), None)


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every job that times the phases of its iterations."""
    names = {labels.get("job", "") for labels in window.seen(PHASE)}
    if not names:
        return
    known = jobs(window)
    for job in (known.get(name) or Job(name) for name in sorted(names)):
        cycle = _cycle(window, job, limits)
        if cycle is None:
            continue
        found = next((b for b in _examined(window, cycle, limits) if b), None)
        yield _diagnosis(cycle, found) if found else Healthy(job.who())


def _cycle(window: Window, job: Job, limits: Limits) -> _Cycle | None:
    phases: defaultdict[str, dict[str, Series]] = defaultdict(dict)
    for series in window.series(PHASE, BACK, job=job.name):
        phase = series.labels.get("phase", "").lower()
        if phase and phase not in _ASIDE and len(series.values) >= FEW:
            phases[phase][series.labels.get("rank", "")] = series
    if not phases.keys() & _ROLLOUT or len(phases) < 2:
        return None
    ranks, now, before, recent = {}, {}, {}, {}
    for phase, by_rank in phases.items():
        ranks[phase] = tuple(by_rank)
        parts = [_split(series, limits["recent"]) for series in by_rank.values()]
        now[phase] = np.array([float(np.median(late)) for late, _ in parts])
        olds = [float(np.median(old)) for _, old in parts if len(old) >= FEW]
        before[phase] = max(olds, default=float("nan"))
        rows = min(len(late) for late, _ in parts)
        recent[phase] = np.column_stack([late[-rows:] for late, _ in parts])
    return _Cycle(job, ranks, now, before, recent)


def _split(series: Series, seconds: float) -> tuple[Floats, Floats]:
    late = series.times > series.times[-1] - seconds
    late[-FEW:] = True
    return series.values[late], series.values[~late]


def _examined(window: Window, cycle: _Cycle, limits: Limits) -> Iterator[Blame | None]:
    yield _syncing(cycle, limits)
    yield _tail(window, cycle, limits)
    yield _mismatch(cycle, limits)


def _syncing(cycle: _Cycle, limits: Limits) -> Blame | None:
    phase = cycle.one_of(_SYNC)
    if phase is None:
        return None
    took, was = cycle.seconds(phase), cycle.before[phase]
    share = cycle.share(phase)
    grew = was > 0.0 and took >= limits["grown"] * was and share >= limits["sync"] / 2.0
    if share < limits["sync"] and not grew:
        return None
    beside = f", {was:.1f} s before" if grew else ""
    words = f"copying the weights takes {took:.1f} s ({share:.0%} of an iteration{beside})"
    expected = f"{was:.3g} as before" if grew else f"< {limits['sync']:.0%} of an iteration"
    return Blame("weight-sync-slow", 0.88, words, [_evidence(cycle, phase, took, expected)])


def _tail(window: Window, cycle: _Cycle, limits: Limits) -> Blame | None:
    """Ranks that generate far longer than the rest, by turns; or a few answers that do."""
    phase = cycle.one_of(_ROLLOUT)
    if phase is None:
        return None
    table = cycle.recent[phase]
    lost, same = 0.0, 1.0
    if table.shape[1] > 1:
        middle = np.median(table, axis=1) if table.shape[1] > 2 else table.min(axis=1)
        lost = float(np.median(table.max(axis=1) - middle))
        same = float(np.bincount(table.argmax(axis=1)).max() / len(table))
    long = _long_answers(window, limits)
    waits = lost / cycle.whole if cycle.whole else 0.0
    uneven = waits >= limits["tail"] and same < limits["same"]
    heavy = cycle.share(phase) >= limits["rollout_some"]
    if not uneven and not (long and heavy and (waits >= limits["tail"] / 2.0 or same == 1.0)):
        return None
    evidence = [_evidence(cycle, phase, cycle.seconds(phase), "alike on all ranks")]
    words = f"ranks wait {lost:.1f} s ({waits:.0%} of an iteration) for the longest rollouts"
    if long:
        evidence.append(Evidence(LENGTHS, round(long[1]), "tokens", f"{long[0]:.0f} in the middle"))
        words += f"; the longest hundredth of answers has {long[1]:.0f} tokens, half of them"
        words += f" {long[0]:.0f} or fewer"
    return Blame("variable-length-tail", 0.9 if uneven and long else 0.82, words, evidence)


def _long_answers(window: Window, limits: Limits) -> tuple[float, float] | None:
    """The middle and the 99th percentile of the lengths, where the one is far beyond the other."""
    counts: defaultdict[float, float] = defaultdict(float)
    for point in window.latest(LENGTHS):
        bound = point.labels.get("le", "")
        counts[float(bound) if bound != "+Inf" else np.inf] += point.value
    bounds = sorted(counts)
    if not bounds or counts[bounds[-1]] < limits["answers"]:
        return None
    total = counts[bounds[-1]]
    finite = [bound for bound in bounds if np.isfinite(bound)]
    middle = next((b for b in finite if counts[b] >= 0.5 * total), None)
    top = next((b for b in finite if counts[b] >= 0.99 * total), finite[-1] if finite else None)
    if middle is None or top is None or top < limits["longer"] * middle:
        return None
    return middle, top


def _mismatch(cycle: _Cycle, limits: Limits) -> Blame | None:
    """A phase that takes most of the iteration on all ranks alike, or grew to do so."""
    phase = max(cycle.now, key=cycle.seconds)
    share, took, was = cycle.share(phase), cycle.seconds(phase), cycle.before[phase]
    main = phase in _ROLLOUT or phase in ("update", "policy_update", "train", "actor_update")
    grew = was > 0.0 and took >= limits["grown"] * was and share >= limits["half"]
    if share < limits["most" if main else "half"] and not grew:
        return None
    others = sum(cycle.seconds(other) for other in cycle.now if other != phase)
    words = (
        f"{phase} takes {took:.1f} s of an iteration of {cycle.whole:.1f} s ({share:.0%}), all"
        f" other phases together {others:.1f} s"
    )
    if grew:
        words += f"; it took {was:.1f} s before"
    evidence = [_evidence(cycle, phase, took, f"{was:.3g} as before" if grew else "")]
    return Blame("phase-resource-mismatch", 0.8, words, evidence)


def _evidence(cycle: _Cycle, phase: str, took: float, expected: str) -> Evidence:
    labels = {"job": cycle.job.name, "phase": phase}
    return Evidence(PHASE, round(took, 2), "seconds", expected, labels)


def _diagnosis(cycle: _Cycle, found: Blame) -> Diagnosis:
    shares = ", ".join(f"{p} {cycle.share(p):.0%}" for p in cycle.now)
    rivals = tuple(
        Rival(cause, f"the shares of an iteration are: {shares}")
        for cause in ("weight-sync-slow", "variable-length-tail", "phase-resource-mismatch")
        if cause != found.cause
    )
    return Diagnosis(
        cycle.job.who(),
        found.cause,
        found.sure,
        f"Iterations of {cycle.job.name or 'the job'} are out of balance: {found.words}.",
        tuple(found.evidence),
        rivals=rivals,
        actions=_ACTIONS,
    )


_ACTIONS = (
    Suggestion("observe", "Look at the shares of the phases over ten iterations: `gpudiag top`."),
    Suggestion("notify", "Tell the job's owner; the page says what helps for which cause."),
    Suggestion("degrade", "Bound the length of answers or the concurrency of rollouts."),
)

RULE = Rule(
    check=check,
    reads=frozenset({PHASE}),
    clear=120.0,
    thresholds={
        "recent": Threshold(300.0, "seconds", "a few iterations; at least three readings"),
        "sync": Threshold(0.15, "ratio", "of an iteration; copies within a node take 1 to 5 %"),
        "grown": Threshold(1.8, "ratio", "of what it took before; lengths alone vary by a third"),
        "tail": Threshold(0.15, "ratio", "of an iteration spent waiting for the longest rollouts"),
        "same": Threshold(0.75, "ratio", "of the time the same rank: slow, not long answers"),
        "rollout_some": Threshold(0.4, "ratio", "of an iteration; below it its tail costs little"),
        "answers": Threshold(50.0, "count", "for a hundredth part to mean anything"),
        "longer": Threshold(4.0, "ratio", "99th percentile over middle: long tails have 5 to 20"),
        "most": Threshold(
            0.8, "ratio", "of an iteration; rollouts take 60 to 70 % where all is well"
        ),
        "half": Threshold(0.5, "ratio", "for a phase that should be a side matter, or has grown"),
    },
)
