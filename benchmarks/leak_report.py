"""leak-report on a million trace entries, beside the bare unpickling of the same file.

Prints seconds and peak memory of both, each in a process of its own: `python -m
benchmarks.leak_report [ENTRIES]`. Exits 1 where the report takes over 1.5 times the time, or 1.3
times the memory, of the restricted unpickling with the garbage collector paused.
"""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.check import Check, show

ROOT = Path(__file__).parents[1]
ENTRIES = 1_000_000
TIME_LIMIT, MEMORY_LIMIT = 1.5, 1.3
ROUNDS = 3
PER_STEP = 4_000
DEPTH = 40
SITE = "/opt/venv/lib/python3.11/site-packages"

BARE = """
import gc, pickle, sys
class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(module)
gc.disable()
with open(sys.argv[1], "rb") as file:
    found = Plain(file).load()
import os
os._exit(0)
"""


def generate(path: Path, entries: int) -> None:
    """Write a training job's snapshot: each event with a list of frames of its own.

    Frames are shared, as torch shares them, and a step goes through the same stacks as the one
    before; one line keeps a block of 64 KiB in each.
    """
    chance = random.Random(11)
    frames = [_frame(n) for n in range(3_000)]
    trace: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    kept: list[tuple[int, list[Any]]] = []
    address, clock, step = 1 << 40, 1_764_000_000_000_000, 0
    leak = {"filename": "/srv/job/train.py", "line": 57, "name": "train_step"}
    models = [chance.sample(frames, DEPTH) for _ in range(PER_STEP // 3)]
    while len(trace) < entries:
        stacks = [list(stack) for stack in models]
        blocks = [(address + n * 1_048_576, stack) for n, stack in enumerate(stacks)]
        for at, stack in blocks:
            clock += 20
            trace.append(_event("alloc", at, 900_000, clock, stack))
        for at, stack in blocks:
            for action in ("free_requested", "free_completed"):
                clock += 20
                trace.append(_event(action, at, 900_000, clock, list(stack)))
        address += PER_STEP * 1_048_576
        kept.append((address, [leak, *chance.sample(frames, DEPTH)]))
        trace.append(_event("alloc", address, 65_536, clock, kept[-1][1]))
        address += 1_048_576
        clock += 100
        name = f"ProfilerStep#{step}"
        notes.append({"name": name, "stage": "END", "device": 0, "time_us": clock})
        step += 1
    found = {
        "segments": [_segment(at, stack) for at, stack in kept],
        "device_traces": [trace[:entries]],
        "allocator_settings": {},
        "external_annotations": notes,
    }
    with path.open("wb") as file:
        pickle.dump(found, file, 4)


def _frame(n: int) -> dict[str, Any]:
    if n % 3:
        return {"filename": "??", "line": 0, "name": f"at::_ops::op_{n}::call(at::Tensor const&)"}
    where = f"{SITE}/torch/nn/modules/m{n}.py" if n % 2 else f"/srv/job/model_{n}.py"
    return {"filename": where, "line": n, "name": "forward"}


def _event(action: str, at: int, size: int, clock: int, stack: list[Any]) -> dict[str, Any]:
    return {
        "action": action,
        "addr": at,
        "size": size,
        "stream": 0,
        "time_us": clock,
        "frames": stack,
    }


def _segment(at: int, stack: list[Any]) -> dict[str, Any]:
    free, size = 2_097_152 - 65_536, 2_097_152
    live = {"address": at, "size": 65_536, "requested_size": 65_536, "frames": stack}
    rest = {"address": at + 65_536, "size": free, "requested_size": 0, "frames": []}
    return {
        "device": 0,
        "address": at,
        "total_size": size,
        "allocated_size": 65_536,
        "active_size": 65_536,
        "requested_size": 65_536,
        "stream": 0,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "blocks": [{**live, "state": "active_allocated"}, {**rest, "state": "inactive"}],
    }


def measured(*command: str) -> tuple[float, float]:
    """Seconds and peak MiB of a command with all of its children."""
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while child.poll() is None:
        peak = max(peak, sum(map(_resident, _family(child.pid))))
        time.sleep(0.02)
    if child.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} failed with {child.returncode}")
    return time.perf_counter() - began, peak / 2**20


def _family(pid: int) -> list[int]:
    try:
        told = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return [pid]
    return [pid, *(one for child in " ".join(told).split() for one in _family(int(child)))]


def _resident(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def measure(entries: int = ENTRIES) -> list[Check]:
    """The better of a few rounds each, taken in turn."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "generated.pickle"
        # A process of its own gives the memory of what it made back before anything is measured.
        make = f"from benchmarks.leak_report import *; generate(Path({str(file)!r}), {entries})"
        subprocess.run([sys.executable, "-c", make], check=True, cwd=ROOT)
        size = file.stat().st_size / 2**20
        bare, whole = [], []
        for _ in range(ROUNDS):
            bare.append(measured(sys.executable, "-c", BARE, str(file)))
            whole.append(measured(sys.executable, "-m", "gpudiag.agent", "leak-report", str(file)))
    (bare_s, bare_m), (whole_s, whole_m) = (
        tuple(map(min, zip(*r, strict=True))) for r in (bare, whole)
    )
    note = f"{entries:,} trace entries, {size:.0f} MiB"
    return [
        Check("bare unpickling", bare_s, "s", None, f"{note}, {bare_m:.0f} MiB of memory"),
        Check("leak-report", whole_s, "s", TIME_LIMIT * bare_s, f"{whole_s / bare_s:.2f} times"),
        Check("leak-report, memory", whole_m, "MiB", MEMORY_LIMIT * bare_m, "with its child"),
    ]


if __name__ == "__main__":
    checks = measure(int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES)
    show("leak-report", checks)
    sys.exit(int(not all(check.ok for check in checks)))
