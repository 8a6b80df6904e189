"""A Prometheus in a process of its own, with the last hours of a node of hot GPUs."""

from __future__ import annotations

import time
from pathlib import Path

from tests.agent.history.days import Gpu, dcgm_day, write
from tests.prometheus import RunningPrometheus


def last_hours(folder: Path, hours: float = 2.0) -> RunningPrometheus:
    """Started, with four GPUs of which one is hot for the second hour."""
    start = time.time() - hours * 3600.0
    gpus = [Gpu(0, hot=hours / 2.0), *map(Gpu, range(1, 4))]
    text = write(folder / "hours.om", dcgm_day(gpus, start=start, hours=hours))
    return RunningPrometheus(folder).backfill(text).start()
