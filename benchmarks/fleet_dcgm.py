"""The made-up fleet's GPUs as dcgm-exporter tells of them: its names, its units, its labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from benchmarks.fleet_series import Made

_HW_THERMAL = 0x40
_MIB = 1024.0**2

_NAMES = {
    "gpudiag_gpu_temperature_celsius": ("DCGM_FI_DEV_GPU_TEMP", 1.0),
    "gpudiag_gpu_utilization_ratio": ("DCGM_FI_DEV_GPU_UTIL", 100.0),
    "gpudiag_gpu_power_watts": ("DCGM_FI_DEV_POWER_USAGE", 1.0),
    "gpudiag_gpu_power_limit_watts": ("DCGM_FI_DEV_POWER_MGMT_LIMIT", 1.0),
    "gpudiag_gpu_memory_used_bytes": ("DCGM_FI_DEV_FB_USED", 1.0 / _MIB),
    "gpudiag_gpu_memory_total_bytes": ("DCGM_FI_DEV_FB_TOTAL", 1.0 / _MIB),
    "gpudiag_gpu_pcie_link_generation": ("DCGM_FI_DEV_PCIE_LINK_GEN", 1.0),
    "gpudiag_gpu_pcie_link_generation_max": ("DCGM_FI_DEV_PCIE_MAX_LINK_GEN", 1.0),
    "gpudiag_gpu_pcie_link_width": ("DCGM_FI_DEV_PCIE_LINK_WIDTH", 1.0),
    "gpudiag_gpu_pcie_link_width_max": ("DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", 1.0),
    "gpudiag_gpu_pcie_replays_total": ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 1.0),
    "gpudiag_gpu_row_remap_pending": ("DCGM_FI_DEV_ROW_REMAP_PENDING", 1.0),
    "gpudiag_gpu_row_remap_failed": ("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1.0),
    "gpudiag_gpu_ecc_errors_total": ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1.0),
}
_CLOCKS = {"sm": "DCGM_FI_DEV_SM_CLOCK", "memory": "DCGM_FI_DEV_MEM_CLOCK"}


def told(node: str, series: Iterable[Made]) -> Iterator[Made]:
    """Those of the series that the exporter has too; it knows nothing of jobs and hosts."""
    for name, labels, values in series:
        if "uuid" not in labels or name.startswith("gpudiag_train"):
            continue
        who = {"UUID": labels["uuid"], "gpu": labels["gpu"], "Hostname": node}
        who |= {"device": f"nvidia{labels['gpu']}", "modelName": "NVIDIA H100 80GB HBM3"}
        if name in _NAMES:
            spelled, factor = _NAMES[name]
            yield spelled, who, np.round(values * factor, 3)
        elif name == "gpudiag_gpu_clock_hertz":
            yield _CLOCKS[labels["clock"]], who, values / 1e6
        elif name == "gpudiag_gpu_throttle_active" and labels["reason"] == "hw_thermal":
            yield "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", who, values * _HW_THERMAL
        elif name == "gpudiag_gpu_info":
            yield "DCGM_FI_DEV_XID_ERRORS", who, 0.0 * values
        elif name == "gpudiag_gpu_xid_errors_total":
            # Its gauge keeps the last code; the zero of before is the line above.
            code = float(labels["xid"])
            yield "DCGM_FI_DEV_XID_ERRORS", who, np.where(np.isnan(values), np.nan, code)
