"""Fragmentation of each kind: memory is free, and the request fails all the same."""

from __future__ import annotations

import random

from tests.allocsim.allocator import Allocator, Device, OutOfMemory
from tests.allocsim.case import Case, Played, Truth
from tests.allocsim.job import Job
from tests.allocsim.rules import GIB, MIB, Settings
from tests.allocsim.stacks import MAIN, STEP, user

FORWARD = (user("model.py", 61, "forward"), *STEP)


def _small_gpu(settings: Settings | None = None) -> Job:
    device = Device(capacity=4 * GIB, context=256 * MIB)
    return Job(Allocator(device, settings or Settings()))


def _until_it_fails(job: Job, cause: str, size: int) -> Case:
    """Snapshots before and after a request that must fail."""
    played = Played(job)
    played.take()
    try:
        job.alloc(size, FORWARD)
    except OutOfMemory as error:
        played.take()
        return played.done(Truth("fragmentation", cause, failed=size), str(error))
    raise AssertionError("the request was served: nothing is fragmented")


def variable_shapes(settings: Settings | None = None) -> Case:
    """Lengths that never repeat cut the segments up; live and free pieces alternate."""
    job, chance = _small_gpu(settings), random.Random(3)
    # One long batch made large segments; all later and shorter ones are cut from these.
    job.free([job.alloc(600 * MIB, FORWARD) for _ in range(6)])
    live = [job.alloc(chance.randrange(4, 56) * MIB + 512, FORWARD) for _ in range(105)]
    chance.shuffle(live)
    job.free(live[: len(live) // 2], STEP)
    return _until_it_fails(job, "variable-shapes", 560 * MIB)


def private_pool_stranded() -> Case:
    """A capture needed 2.5 GiB at its peak; its pool keeps them, and nobody else may use them."""
    frames = (user("graphs.py", 58, "capture"), *MAIN)
    job = _small_gpu()
    with job.allocator.private((0, 1)):
        peak = [job.alloc(128 * MIB, frames) for _ in range(20)]
    job.kept = [peak.pop()]
    job.free(peak, frames)
    return _until_it_fails(job, "private-pools-stranded", 1536 * MIB)


def other_streams_pool() -> Case:
    """A side stream staged 2.3 GiB once; one small block keeps the segment with that stream."""
    frames = (user("prefetch.py", 36, "stage"), *STEP)
    job = _small_gpu()
    job.free([job.alloc(2300 * MIB, frames, stream=7)], frames)
    job.kept = [job.alloc(4 * MIB, frames, stream=7)]
    return _until_it_fails(job, "stream-pools", 2048 * MIB)


def pinned_by_few() -> Case:
    """Segments of 200 MiB, each held by one block of 2 MiB that outlived the rest."""
    job = _small_gpu()
    for _ in range(18):
        whole = job.alloc(200 * MIB, FORWARD)
        job.free([whole])
        job.kept.append(job.alloc(2 * MIB, (user("cache.py", 19, "put"), *MAIN)))
        rest = job.alloc(198 * MIB, FORWARD)
        job.saved.append(rest)
    job.free(job.saved)
    return _until_it_fails(job, "pinned-by-few-live-blocks", 512 * MIB)
