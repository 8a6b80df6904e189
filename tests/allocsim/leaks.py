"""Planted leaks: each keeps a known number of bytes per step at a known line."""

from __future__ import annotations

from tests.allocsim.case import Case, Truth, at, series
from tests.allocsim.job import OPS, Job
from tests.allocsim.rules import KIB, MIN_BLOCK, ceil_to
from tests.allocsim.snapshot import NEWEST, Version
from tests.allocsim.stacks import CALLS, MAIN, PROJECT, STEP, Stack, user

RETAINED = "tensors-retained-across-steps"
LOGGED = "log-or-cache-buffers"
TEMPORARY = "temporaries-not-freed-after-step"
COMM = "comm-buffers-not-reclaimed"
HALF_TENTH_MIB = 52_429


def _keeping(sizes: list[int], frames: Stack, phase: str = "end") -> tuple[Job, int]:
    """A job that keeps blocks of these sizes each step, and the bytes that they take."""
    job = Job()
    job.hooks[phase].append(lambda job: job.kept.extend(job.alloc(s, frames) for s in sizes))
    return job, sum(max(MIN_BLOCK, ceil_to(size, MIN_BLOCK)) for size in sizes)


def _line(frames: Stack) -> str:
    own = next(f for f in frames if f["filename"].startswith(PROJECT))
    return f"{own['filename']}:{own['line']}"


def _leak(file: str, line: int, name: str, sizes: list[int], cause: str = RETAINED) -> Case:
    job, taken = _keeping(sizes, (user(file, line, name), *MAIN))
    return series(job, Truth("leak", cause, {at(file, line): taken}))


def scalar() -> Case:
    """One 0-dim tensor a step: `losses.append(loss.detach().clone())`."""
    return _leak("train.py", 95, "train_step", [4])


def two_kib() -> Case:
    """Four small blocks a step, 2 KiB in all."""
    return _leak("train.py", 97, "log_norms", [4] * 4)


def twentieth_mib() -> Case:
    """0.05 MiB a step."""
    return _leak("metrics.py", 41, "update", [HALF_TENTH_MIB])


def cache() -> Case:
    """A dict that never forgets: a mask for every length and offset."""
    return _leak("model.py", 72, "mask", [96 * KIB])


def kept_graph(version: Version = NEWEST) -> Case:
    """`history.append(loss)`: every step's whole set of activations stays."""
    job = Job(keep_graph=True)
    size = job.length(0) * job.width * 4
    lines = {_line(op.frames): int(size * op.share) * job.layers for op in OPS}
    lines[at("train.py", 80)] = size * 4 + MIN_BLOCK
    return series(job, Truth("leak", RETAINED, lines), every=1, version=version)


def growing_cat() -> Case:
    """`self.seen = torch.cat([self.seen, x])`: one block, larger each step."""
    frames = (user("eval.py", 44, "collect"), *STEP)
    grows = 64 * KIB

    def collect(job: Job) -> None:
        before, job.kept = job.kept, []
        job.kept.append(job.alloc(grows * (job.number + 1), frames))
        job.free(before, frames)

    job = Job()
    job.hooks["end"].append(collect)
    return series(job, Truth("leak", LOGGED, {at("eval.py", 44): grows}))


def held_by_hook() -> Case:
    """A gradient hook that stores a copy: it runs in autograd's thread, under no other line."""
    job, taken = _keeping([256 * KIB], (user("hooks.py", 23, "save_gradient"),), "backward")
    return series(job, Truth("leak", RETAINED, {at("hooks.py", 23): taken}))


def without_frames() -> Case:
    """`backward(create_graph=True)`: four blocks of 512 B a step, made where no Python runs."""
    job, taken = _keeping([4] * 4, (), "backward")
    return series(job, Truth("leak", RETAINED, {"": taken}))


def _cycles(gc_every: int) -> Job:
    frames = (user("trainer.py", 210, "closure"), *CALLS, *STEP)
    job = Job()

    def closure(job: Job) -> None:
        if job.number % gc_every == 0:
            job.free(job.kept, (user("train.py", 88, "train_step"), *MAIN))
        job.kept.append(job.alloc(768 * KIB, frames))

    job.hooks["end"].append(closure)
    return job


def cycle() -> Case:
    """A reference cycle per step, seen before any gc has run."""
    truth = Truth("leak", TEMPORARY, {at("trainer.py", 210): 768 * KIB})
    return series(_cycles(1000), truth)


def cycle_collected() -> Case:
    """The same, with gc every 17 steps: it rises and falls back."""
    truth = Truth("sawtooth", TEMPORARY, {at("trainer.py", 210): 768 * KIB})
    return series(_cycles(17), truth, count=40, every=2)


def outside_torch() -> Case:
    """A process group per step that is never destroyed: only the device's own figure grows."""
    grows = 2048 * KIB
    job = Job()

    def group(job: Job) -> None:
        job.allocator.device.outside += grows

    job.hooks["end"].append(group)
    return series(job, Truth("outside torch", COMM, outside_per_step=grows))
