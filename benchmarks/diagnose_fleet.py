"""Diagnoses a day of a made-up fleet out of a real Prometheus: time, memory, and what was found.

Run: python benchmarks/diagnose_fleet.py [--nodes 10 30 100] [--hours 24] [--data FOLDER]
Goal: 100 nodes x 24 h at 30 s within 10 minutes and 1.5 GiB (of gpudiag's processes together, the
server's apart) on two cores, and time that grows with the nodes and no faster. With all three sizes
it takes about half an hour and 1 GiB of disk; --nodes 10 about two minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import fleet_faults
from benchmarks.check import Check, show
from benchmarks.fleet_metrics import Fleet, backfill
from tests.prometheus import RunningPrometheus

MOST_SECONDS, MOST_MIB = 600.0, 1536.0
GOAL_NODES, GOAL_HOURS = 100, 24.0
STEEPEST = 1.15
"""Seconds a node may take more in the largest fleet than in the smallest."""


@dataclass(frozen=True)
class Taken:
    """One run: wall-clock and CPU seconds, the most that all its processes held at once, MiB."""

    nodes: int
    wall: float
    cpu: float
    peak: float
    samples: int
    planted: int
    named: int
    invented: int


def measure(fleet: Fleet, folder: Path, workers: int) -> Taken:
    """Backfill, start the server, diagnose."""
    server = RunningPrometheus(folder)
    samples = backfill(fleet, folder, server.data)
    server.start()
    try:
        return _diagnosed(fleet, server, workers, samples)
    finally:
        server.stop()


def _diagnosed(fleet: Fleet, server: RunningPrometheus, workers: int, samples: int) -> Taken:
    program = [sys.executable, "-m", "gpudiag.agent", "diagnose"]
    url = ["--prometheus", f"http://127.0.0.1:{server.port}", "--json"]
    span = [f"--start={fleet.start}", f"--end={fleet.end}", f"--workers={workers}"]
    out = server.folder / "findings.json"
    began = time.monotonic()
    with out.open("wb") as file:
        process = subprocess.Popen([*program, *url, *span], stdout=file, stderr=subprocess.DEVNULL)
        peak, cpu = _watched(process)
    wall = time.monotonic() - began
    told = [json.loads(line) for line in out.read_text().splitlines()]
    found = {(x.get("node"), x["symptom"]) for x in told if "symptom" in x and "node" in x}
    alone = {(x.get("node"), x["symptom"]) for x in told if x.get("explained_by") == ""}
    planted = {(fleet_faults.node_name(f.node), f.symptom) for f in fleet.faults}
    # What a hot GPU does to its job is the finding, and the heat folds under it.
    slowed = {(node, "straggler") for node, symptom in planted if symptom == "thermal-throttle"}
    named, invented = len(planted & found), len(alone - planted - slowed)
    return Taken(fleet.nodes, wall, cpu, peak, samples, len(planted), named, invented)


def _watched(process: subprocess.Popen[bytes]) -> tuple[float, float]:
    """Peak of the proportional memory (MiB) and CPU seconds of the program and its workers."""
    peak = cpu = 0.0
    parent = psutil.Process(process.pid)
    while process.poll() is None:
        held = spent = 0.0
        try:
            for one in (parent, *parent.children(recursive=True)):
                held += one.memory_full_info().pss / 2**20
                spent += sum(one.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
        peak, cpu = max(peak, held), max(cpu, spent)
        time.sleep(0.5)
    return peak, cpu


def main() -> int:
    """Measure each size, the smallest first; exit 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10, 30, 100])
    parser.add_argument("--hours", type=float, default=GOAL_HOURS)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--data", type=Path, help="where the histories go; a scratch folder else")
    given = parser.parse_args()
    runs = []
    for nodes in sorted(given.nodes):
        with tempfile.TemporaryDirectory(dir=given.data) as scratch:
            runs.append(measure(Fleet(nodes, given.hours * 3600.0), Path(scratch), given.workers))
        print(_line(runs[-1], given.hours), flush=True)
    checks = list(_checks(runs, given.hours))
    show("diagnose a fleet", checks)
    return int(not all(check.ok for check in checks))


def _line(run: Taken, hours: float) -> str:
    steps = run.nodes * hours * 120
    return (
        f"{run.nodes} nodes x {hours:g} h: {run.samples / 1e6:.1f} M samples,"
        f" {run.wall:.0f} s, {run.cpu:.0f} s CPU ({run.cpu / steps * 1e3:.2f} ms a node and"
        f" sample), peak {run.peak:.0f} MiB, {run.named} of {run.planted} planted faults named,"
        f" {run.invented} findings of what was not planted"
    )


def _checks(runs: list[Taken], hours: float) -> list[Check]:
    # A smaller fleet or a shorter history has its share of the goal's time.
    share = [run.nodes * hours / (GOAL_NODES * GOAL_HOURS) for run in runs]
    checks = []
    for run, part in zip(runs, share, strict=True):
        name = f"{run.nodes} nodes x {hours:g} h"
        checks.append(Check(name, run.wall, "s", MOST_SECONDS * part, f"CPU {run.cpu:.0f} s"))
        checks.append(Check(f"{name}, memory", run.peak, "MiB", MOST_MIB))
        checks.append(Check(f"{name}, invented", run.invented, "", 0.0))
        unnamed = float(run.planted - run.named)
        checks.append(Check(f"{name}, faults not named", unnamed, "", 0.0))
    if len(runs) > 1:
        first, last = runs[0], runs[-1]
        steep = (last.cpu / last.nodes) / (first.cpu / first.nodes)
        checks.append(Check("CPU a node, largest to smallest fleet", steep, "", STEEPEST))
    return checks


if __name__ == "__main__":
    sys.exit(main())
