from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpudiag.probes.nvml.processes import Processes


@pytest.mark.parametrize(
    ("symbols", "call"),
    [
        (["ComputeRunningProcesses_v3", "RunningProcessDetailList"], "v3"),
        (["ComputeRunningProcesses_v3"], "v3"),
        # 535.43 to 535.98: the v3 record has one field more than the bindings know.
        (["ComputeRunningProcesses_v3", "ConfComputeMemSizeInfo"], "v2"),
        (["ComputeRunningProcesses_v2"], "v2"),
    ],
)
def test_call_whose_record_fits(symbols: list[str], call: str) -> None:
    library = SimpleNamespace(**{f"nvmlDeviceGet{name}": None for name in symbols})
    asked: list[str] = []
    nvml = SimpleNamespace(
        nvmlLib=library,
        NVMLError=OSError,
        nvmlDeviceGetComputeRunningProcesses_v2=lambda handle: asked.append("v2"),
        nvmlDeviceGetComputeRunningProcesses_v3=lambda handle: asked.append("v3"),
    )
    Processes(nvml, Path("/proc")).question(None).ask(0)
    assert asked == [call]
