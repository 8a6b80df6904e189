"""What a rule is and what it may say: three outcomes, each with its subject and evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpudiag.agent.window import Window
from gpudiag.probes.catalog import Severity

Subject = tuple[tuple[str, str], ...]
"""Who is meant: pairs in the order of `SUBJECT_KEYS`; hashable, half of a finding's identity."""

SUBJECT_KEYS = ("uuid", "job", "rank", "server", "node", "mountpoint", "device", "pid")

UNDETERMINED = "undetermined"
"""The cause of a finding whose symptom is there and whose cause is open: alerts, never acts."""


def subject(**pairs: str) -> Subject:
    """A subject in canonical order; a key outside `SUBJECT_KEYS` is a mistake in the rule."""
    unknown = pairs.keys() - set(SUBJECT_KEYS)
    if unknown:
        raise ValueError(f"no such subject key: {sorted(unknown)}")
    return tuple((key, pairs[key]) for key in SUBJECT_KEYS if key in pairs)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact that speaks for the cause: the metric or event, its value, what was expected."""

    name: str
    value: float | str
    unit: str = ""
    expected: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rival:
    """A neighbouring cause, and why it lost."""

    cause: str
    why_not: str


Rung = Literal["observe", "notify", "degrade", "drain", "restart"]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A safe next step: the rung of the ladder, and what to do in words."""

    rung: Rung
    text: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The symptom is there, with its most likely cause.

    `confidence` is 0-1; `summary` one sentence a person reads; `since` when it began (epoch
    seconds) where the data tell, else when the rule first saw it; `missing` what would settle an
    open cause; `severity` overrides the symptom's own.
    """

    subject: Subject
    cause: str
    confidence: float
    summary: str
    evidence: tuple[Evidence, ...]
    rivals: tuple[Rival, ...] = ()
    missing: tuple[str, ...] = ()
    actions: tuple[Suggestion, ...] = ()
    severity: Severity | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Healthy:
    """The symptom was looked for with fresh data and is not there: this alone resolves it."""

    subject: Subject


@dataclass(frozen=True, slots=True)
class Unknown:
    """Whether the symptom is there cannot be told; `missing` names the inputs that would tell."""

    subject: Subject
    missing: tuple[str, ...]


Verdict = Diagnosis | Healthy | Unknown

Limits = Mapping[str, float]
"""The thresholds in force for a rule, by name: its defaults under the configuration."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """A default limit: `unit` (seconds, ratio, bytes, count, ...) and where it comes from."""

    default: float
    unit: str
    why: str


@dataclass(frozen=True, slots=True)
class Rule:
    """One symptom's opinion. Its id is the name of its file, its first docstring line its title.

    `check` is pure: no clock (`window.now` is the time), no I/O, no state of its own. It says
    something of every subject that it has seen and may judge; a subject it does not mention is
    left as it was. `reads` are the metrics whose history it needs (kept raw for 2 h), `trends`
    those it needs as one-minute aggregates (48 h), `events` the event sources that make it run
    at once. `hold` is how long the symptom must last before it fires, `clear` how long it must be
    gone before it resolves, both in seconds.
    """

    check: Callable[[Window, Limits], Iterable[Verdict]]
    reads: frozenset[str] = frozenset()
    trends: frozenset[str] = frozenset()
    events: frozenset[str] = frozenset()
    hold: float = 0.0
    clear: float = 60.0
    thresholds: Mapping[str, Threshold] = field(default_factory=dict)
