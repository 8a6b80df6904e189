"""What looks like growth and is none."""

from __future__ import annotations

import random

from tests.allocsim.case import Case, Played, Truth, series
from tests.allocsim.job import CUBLAS_WORKSPACE, LAYER, LINEAR, Job
from tests.allocsim.rules import KIB, MIB
from tests.allocsim.stacks import MAIN, user

POOL = (0, 1)


def warm_up() -> Case:
    """Kernels are tuned and workspaces made, fewer and fewer of them, for 30 steps."""
    frames = (*LINEAR, user("model.py", 61, "forward"), *LAYER)
    job = Job()

    def tune(job: Job) -> None:
        size = int(64 * MIB * 0.85**job.number)
        if size > 64 * KIB:
            job.kept.append(job.alloc(size, frames))

    job.hooks["forward"].append(tune)
    return series(job, Truth("warm-up"), count=16, every=4, warm=0)


def adam_first_step() -> Case:
    """AdamW's two states per parameter appear with the first step, and never again."""
    job = Job().start()
    played = Played(job)
    played.take()
    for _ in range(12):
        job.step()
        played.take()
    return played.done(Truth("warm-up"))


def epoch_sawtooth() -> Case:
    """A list of outputs that is emptied at the end of each epoch of 20 steps."""
    frames = (user("train.py", 101, "train_epoch"), *MAIN)
    job = Job()

    def collect(job: Job) -> None:
        job.kept.append(job.alloc(3 * MIB, frames))
        if job.number % 20 == 0:
            job.free(job.kept, frames)

    job.hooks["end"].append(collect)
    return series(job, Truth("sawtooth"), count=44, every=2)


def cublas_workspace() -> Case:
    """A second stream's first product makes its workspace, once, at step 30."""
    frames = (*LINEAR, user("model.py", 61, "forward"), *LAYER)
    job = Job()

    def side_stream(job: Job) -> None:
        if job.number in (0, 30):
            job.kept.append(job.alloc(CUBLAS_WORKSPACE, frames, stream=7 if job.number else 0))

    job.hooks["forward"].append(side_stream)
    return series(job, Truth("flat"))


def graph_capture() -> Case:
    """Graphs for four shapes are captured into a private pool within the first steps."""
    frames = (user("graphs.py", 58, "capture"), *MAIN)
    job = Job()

    def capture(job: Job) -> None:
        if job.number <= 20 and job.number % 5 == 0:
            with job.allocator.private(POOL):
                kept = [job.alloc(12 * MIB, frames) for _ in range(3)]
                job.free([kept.pop()], frames)
            job.kept += kept

    job.hooks["end"].append(capture)
    return series(job, Truth("warm-up"), count=16)


def variable_lengths() -> Case:
    """Four lengths in turn by chance; what lives between steps stays the same."""
    chance = random.Random(7)
    lengths = [chance.choice((256, 384, 448, 512)) for _ in range(400)]
    job = Job(length=lambda step: lengths[step])
    return series(job, Truth("flat"))


def kv_pool() -> Case:
    """A server's pool of key-value blocks, taken whole at the start; requests only fill it."""
    frames = (user("engine.py", 77, "allocate_kv_cache"), user("engine.py", 31, "__init__"))
    step = (user("engine.py", 120, "execute"), user("engine.py", 140, "step"))
    job = Job()
    job.kept = [job.alloc(256 * MIB, frames) for _ in range(8)]
    played = Played(job)
    for number in range(60):
        job.free([job.alloc(4 * MIB + 8 * KIB * (number % 9), step)], step)
        job.number += 1
        job.allocator.recorder.clock.us += job.step_us
        if number % 5 == 4:
            played.take()
    return played.done(Truth("flat"))
