from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpudiag.probes.nvml.probe import Nvml
from tests.probes.nvml.watch import Watch
from tests.simdriver.state import SimDriver

Start = Callable[..., Watch]

HASTE = 2.0
"""Seconds of silence that a test waits for; a child that a busy machine holds up is silent less."""


@pytest.fixture
def start(sim: SimDriver) -> Iterator[Start]:
    """Start the probe over the simulated driver; options are those of `Nvml`."""
    watches: list[Watch] = []

    def begin(**options: Any) -> Watch:
        env = {**os.environ, **sim.environment}
        fast = {"cadence": 0.05, "deadline": 30.0, "backoff": (0.05, 0.2), "env": env}
        watches.append(Watch(Nvml(**{**fast, **options})))
        return watches[-1]

    yield begin
    for watch in watches:
        pid = watch.probe.pid
        watch.probe.close()
        with suppress(ProcessLookupError):
            os.kill(pid or 0, signal.SIGKILL) if pid else None


@pytest.fixture
def running(start: Start) -> Watch:
    """The probe over eight healthy GPUs, everything read once."""
    watch = start()
    watch.until(watch.has("nvml_up", 1))
    return watch


@pytest.fixture
def hasty(start: Start) -> Watch:
    """As `running`, over a driver whose silence is soon taken for a hang."""
    watch = start(deadline=HASTE)
    watch.until(watch.has("nvml_up", 1))
    return watch


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory, simdriver_library: Path) -> Watch:
    """What a healthy node said; the probe is closed, so that others can start."""
    driver = SimDriver(tmp_path_factory.mktemp("healthy") / "state", simdriver_library)
    watch = Watch(Nvml(cadence=0.15, env={**os.environ, **driver.environment}))
    watch.until(lambda: watch.get("gpu_sm_active_ratio", gpu="7") is not None)
    watch.probe.close()
    return watch
