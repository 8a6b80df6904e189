"""From a line in the kernel log to the finding on the API, in a running agent."""

from __future__ import annotations

import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.check import Check, quantile
from benchmarks.processes import agent, driver
from tests.running import RunningAgent, wait_for

MAX_SECONDS = 1.0
AGENTS = 3
"""Each GPU has one finding of XIDs, so that an agent with eight is good for eight trials."""

POLL_SECONDS = 0.02


def measure() -> list[Check]:
    """24 trials, about half a minute."""
    with tempfile.TemporaryDirectory() as scratch:
        taken = [s for n in range(AGENTS) for s in _agent(Path(scratch) / str(n))]
    note = f"{len(taken)} trials, median {quantile(taken, 0.5):.2f}, worst is measured"
    return [Check("XID line to finding on the API", max(taken), "s", MAX_SECONDS, note)]


def _agent(folder: Path) -> Iterator[float]:
    folder.mkdir()
    with (
        driver(folder / "driver") as sim,
        agent(folder / "agent", sim.environment) as running,
    ):
        for uuid, bus in wait_for(lambda: _all_gpus(running)):
            # Not in step with the agent's own rhythm.
            time.sleep(random.uniform(0.2, 0.6))
            yield _trial(running, uuid, bus)


def _all_gpus(running: RunningAgent) -> list[tuple[str, str]]:
    """UUID and bus id of each of the eight; empty until all are there."""
    lines = [ln for ln in running.get("/metrics").splitlines() if "gpudiag_gpu_info{" in ln]
    gpus = [(_label(line, "uuid"), _label(line, "pci_bus_id")) for line in lines]
    return gpus if len(gpus) == 8 else []


def _label(line: str, name: str) -> str:
    found = re.search(rf'\b{name}="([^"]*)"', line)
    assert found, line
    return found[1]


def _trial(running: RunningAgent, uuid: str, bus: str) -> float:
    began = time.monotonic()
    running.kernel(f"NVRM: Xid (PCI:{bus[:-2]}): 48, pid=4242, name=python, DBE (double bit error)")
    wait_for(lambda: _told(running, uuid), seconds=10, every=POLL_SECONDS)
    return time.monotonic() - began


def _told(running: RunningAgent, uuid: str) -> bool:
    return any(found["subject"].get("uuid") == uuid for found in running.firing("gpu-xid"))
