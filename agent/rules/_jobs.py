"""Which training jobs there are, who their ranks are, and whether they get on: shared by rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gpudiag.agent.rules._teams import INFO, STEP, STEPS
from gpudiag.agent.rules.contract import Subject, subject
from gpudiag.agent.window import Series, Window
from gpudiag.probes import Event

LOSS = "gpudiag_train_loss"
SEQUENCE = "gpudiag_train_collective_sequence"
SEEN_BY = (STEPS, STEP, INFO, LOSS)
"""What a training process reports from its start: each of these makes a job known."""

_RANK_IN_NAME = re.compile(r"rank[-_ ]?(\d+)")


@dataclass(slots=True)
class Job:
    """A job and its ranks, silent ones too: what `gpudiag_train_info` says of each, by rank."""

    name: str
    ranks: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def world(self) -> int:
        """How many ranks it has by its own word, 0 where none says."""
        sizes = [of.get("world_size", "") for of in self.ranks.values()]
        return max((int(size) for size in sizes if size.isdigit()), default=0)

    @property
    def uuids(self) -> dict[str, str]:
        """GPU by rank, as far as known."""
        return {rank: of["uuid"] for rank, of in self.ranks.items() if of.get("uuid")}

    def who(self, rank: str | None = None) -> Subject:
        """The job, or one of its ranks, as a subject; empty where the job has no name."""
        if not self.name:
            return ()
        return subject(job=self.name, rank=rank) if rank else subject(job=self.name)


def jobs(window: Window) -> dict[str, Job]:
    """Every job that was seen, by name."""
    found: dict[str, Job] = {}
    for metric in SEEN_BY:
        for labels in window.seen(metric):
            rank = labels.get("rank")
            if rank is None:
                continue
            name = labels.get("job", "")
            job = found.get(name) or found.setdefault(name, Job(name))
            if metric == INFO or rank not in job.ranks:
                job.ranks[rank] = labels
    return found


def job_of(known: Mapping[str, Job], event: Event, pid: str = "", rank: str = "") -> Job | None:
    """Whose event it is: by its own word, by pid, by its log's name, or the only job there is."""
    if event.fields.get("job") in known:
        return known[event.fields["job"]]
    if pid:
        for job in known.values():
            if any(of.get("pid") == pid for of in job.ranks.values()):
                return job
    name = event.source.partition(":")[2]
    if name in known:
        return known[name]
    if len(known) == 1:
        return next(iter(known.values()))
    having = [job for job in known.values() if rank and rank in job.ranks]
    return having[0] if len(having) == 1 else None


def rank_of(job: Job, event: Event, pid: str = "", rank: str = "") -> str:
    """Which rank an event is about: by its line, its fields, its pid or its log's name, else ""."""
    if rank or event.fields.get("rank"):
        return rank or event.fields["rank"]
    for known, of in job.ranks.items():
        if pid and of.get("pid") == pid:
            return known
    named = _RANK_IN_NAME.search(event.source)
    return named[1] if named else ""


def last_advance(series: Series) -> float:
    """When the counter last rose; its first reading where it never did."""
    rises = np.flatnonzero(np.diff(series.values) > 0.0)
    return float(series.times[rises[-1] + 1 if len(rises) else 0])


def advanced_since(window: Window, job: Job, time: float, grace: float) -> bool:
    """Whether any rank has finished a step later than `grace` seconds after `time`."""
    back = window.now - time - grace
    if back <= 0.0:
        return False
    for series in window.series(STEPS, back, job=job.name):
        if len(series.times) > 1 and series.values[-1] > series.values[0]:
            return True
    return False


def has_stepped(window: Window, job: Job) -> bool | None:
    """Whether it ever finished a step, None where nothing tells."""
    counted = window.seen(STEPS, job=job.name)
    if counted:
        points = window.latest(STEPS, job=job.name)
        if points:
            return max(point.value for point in points) > 0.0
    for metric in (STEP, LOSS):
        if window.seen(metric, job=job.name):
            return True
    return None if counted or not job.ranks else False


def step_seconds(window: Window, job: Job, seconds: float) -> float:
    """The usual time of a step over the last `seconds`, 0.0 where it is not known."""
    spans = [s for s in window.series(STEP, seconds, job=job.name) if len(s.values)]
    values = [float(np.median(s.values)) for s in spans]
    if values:
        return float(np.median(values))
    rates = []
    for series in window.series(STEPS, seconds, job=job.name):
        made = float(series.values[-1] - series.values[0]) if len(series.values) else 0.0
        if made > 0.0:
            rates.append((last_advance(series) - float(series.times[0])) / made)
    return float(np.median(rates)) if rates else 0.0
