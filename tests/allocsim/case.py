"""A scenario played: its snapshots at the same phase of the step, and what is true of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tests.allocsim.job import Job
from tests.allocsim.snapshot import NEWEST, Snapshot, Version
from tests.allocsim.stacks import PROJECT

Verdict = Literal[
    "leak", "warm-up", "sawtooth", "caching", "fragmentation", "outside torch", "flat"
]


@dataclass(frozen=True, slots=True)
class Truth:
    """`lines` are the bytes per step that each `file:line` keeps, in 512 B steps.

    A block that was not split may take up to 1 MiB more; "" is what no Python line made.

    `cause` is the symptom's cause where there is one; `failed` the rounded request that ran out
    of memory; `per_step` may lie outside of all lines (memory that is not torch's).
    """

    verdict: Verdict
    cause: str = ""
    lines: Mapping[str, int] = field(default_factory=dict)
    outside_per_step: int = 0
    failed: int = 0

    @property
    def line(self) -> str:
        """The line that keeps most; "" where no Python line does."""
        return max(self.lines, key=self.lines.__getitem__, default="")

    @property
    def per_step(self) -> int:
        return sum(self.lines.values()) + self.outside_per_step


@dataclass(frozen=True, slots=True)
class Case:
    """`steps[i]` is how many steps were done at `snapshots[i]`; sizes are bytes at that moment."""

    snapshots: list[Snapshot]
    steps: list[int]
    allocated: list[int]
    reserved: list[int]
    used: list[int]
    truth: Truth
    error: str = ""

    @property
    def last(self) -> Snapshot:
        return self.snapshots[-1]


def at(file: str, line: int) -> str:
    """A line as truth names it."""
    return f"{PROJECT}/{file}:{line}"


@dataclass
class Played:
    """Takes the snapshots of a series while a job runs."""

    job: Job
    version: Version = NEWEST
    snapshots: list[Snapshot] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    sizes: list[tuple[int, int, int]] = field(default_factory=list)

    def take(self) -> None:
        owner = self.job.allocator
        self.snapshots.append(self.job.snapshot(self.version))
        self.steps.append(self.job.number)
        counts = owner.counts
        self.sizes.append((counts["allocated"], counts["reserved"], owner.device_used))

    def done(self, truth: Truth, error: str = "") -> Case:
        allocated, reserved, used = (list(column) for column in zip(*self.sizes, strict=True))
        return Case(self.snapshots, self.steps, allocated, reserved, used, truth, error)


def series(
    job: Job,
    truth: Truth,
    *,
    count: int = 12,
    every: int = 5,
    warm: int = 3,
    version: Version = NEWEST,
) -> Case:
    """`count` snapshots, one each `every` steps, after `warm` steps."""
    job.start().steps(warm)
    played = Played(job, version)
    for _ in range(count):
        job.steps(every)
        played.take()
    return played.done(truth)
