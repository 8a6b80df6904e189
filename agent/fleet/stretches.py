"""When jobs over several nodes were held up, by whom, and how many GPU-hours that took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpudiag.agent.fleet import closer, queries
from gpudiag.agent.fleet.closer import Placed
from gpudiag.agent.fleet.losses import FLOOR
from gpudiag.agent.fleet.model import JobState
from gpudiag.agent.fleet.reading import job_of, node_of
from gpudiag.agent.history.client import Client
from gpudiag.agent.history.failing import ServerError
from gpudiag.agent.recording.timeline import Floats

POINTS = 1000
"""Of one job over the whole time: at a day's length one in a minute and a half."""

SHORTEST_STEP = 60.0
FEWEST = 3
LOOK_AFTER = 900.0
"""Seconds into a stretch at which its ranks are looked at: what began is in all means by then."""

Points = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class Held:
    """A job held up from `start` to `end` (epoch seconds), by `share` (0-1) of each step.

    `found` says by which rank or node; none where no one stands out, or where the ranks could not
    be looked at: `unseen` has the reason then.
    """

    job: JobState
    start: float
    end: float
    share: float
    found: tuple[Placed, ...] = ()
    unseen: str = ""

    @property
    def gpu_hours(self) -> float:
        """What that took, on all ranks."""
        return self.share * self.job.ranks * (self.end - self.start) / 3600.0

    def to_json(self) -> dict[str, Any]:
        """The line that stands for it."""
        return {
            "kind": "job",
            "job": self.job.name,
            "ranks": self.job.ranks,
            "nodes": sorted(self.job.nodes),
            "start": self.start,
            "end": self.end,
            "lost_share": round(self.share, 4),
            "unseen": self.unseen,
            "lost_gpu_hours": round(self.gpu_hours, 2),
            "findings": [one.finding.to_json() | {"node": one.node} for one in self.found],
        }


def held(client: Client, start: float, end: float, takes: Callable[[JobState], bool]) -> list[Held]:
    """Every stretch in which a job over two nodes or more was held up, what took most first.

    `takes` says which jobs count. Raises `ServerError`.
    """
    step = max(SHORTEST_STEP, (end - start) / POINTS)
    jobs = {name: job for name, job in _jobs(client, end, end - start).items() if takes(job)}
    if not jobs:
        return []
    usual = _over(client, queries.STEP.expr, start, end, step)
    behind = _over(client, queries.WAITED.expr, start, end, step)
    behind |= _over(client, queries.BEHIND.expr, start, end, step)
    found = (
        _looked(client, Held(job, *stretch))
        for name, job in jobs.items()
        if name in usual and name in behind
        for stretch in _stretches(usual[name], behind[name], step)
    )
    return sorted(found, key=lambda one: (-one.gpu_hours, one.start, one.job.name))


def _jobs(client: Client, at: float, seconds: float) -> dict[str, JobState]:
    seen = f"max_over_time(gpudiag_train_info[{max(1, round(seconds))}s])"
    by = "cluster, node, instance, job, exported_job"
    answer = client.instant(f"count by ({by}) ({seen})", at)
    ranks: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for one in answer.series:
        labels = dict(one.labels)
        node = node_of(labels)
        on = ranks[job_of(labels)]
        on[node] = on.get(node, 0) + int(one.values[-1])
    return {name: JobState(name, nodes) for name, nodes in sorted(ranks.items()) if len(nodes) > 1}


def _over(client: Client, expr: str, start: float, end: float, step: float) -> dict[str, Points]:
    answer = client.range(expr, start, end, step)
    return {job_of(dict(one.labels)): (one.times, one.values) for one in answer.series}


def _stretches(usual: Points, behind: Points, step: float) -> Iterator[tuple[float, float, float]]:
    """Start, end and share of each stretch above the floor; shorter ones are scatter."""
    times, at, of = np.intersect1d(usual[0], behind[0], return_indices=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.nan_to_num(behind[1][of] / usual[1][at], posinf=0.0)
    over = np.concatenate([[False], share >= FLOOR, [False]])
    edges = np.flatnonzero(np.diff(over))
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        if last - first >= FEWEST:
            # Means look back five minutes: both ends lie up to so much late.
            yield (
                float(times[first]),
                float(times[last - 1] + step),
                float(np.median(share[first:last]).clip(0.0, 1.0)),
            )


def _looked(client: Client, one: Held) -> Held:
    at = min(one.start + LOOK_AFTER, (one.start + one.end) / 2.0)
    try:
        return replace(one, found=closer.look(client, one.job.name, at))
    except ServerError as error:
        return replace(one, unseen=str(error))
