"""Which NVML fields become which series, with the factor to the base unit."""

from __future__ import annotations

from typing import NamedTuple

from gpudiag.probes.nvml.fields import ALL_LINKS, Field
from gpudiag.probes.nvml.wire import Key

KIB = 1024.0
MILLI = 1e-3
NANO = 1e-9
MEGA = 1e6


def key(metric: str, **labels: str) -> Key:
    """The key of `gpudiag_<metric>`, its labels sorted by name."""
    return f"gpudiag_{metric}", tuple(sorted(labels.items()))


POWER = key("gpu_power_watts")

FAST_FIELDS = (
    Field(185, POWER, MILLI),
    Field(83, key("gpu_energy_joules_total"), MILLI),
    Field(82, key("gpu_temperature_celsius", sensor="memory")),
    Field(74, key("gpu_throttle_seconds_total", reason="power_cap"), NANO),
    Field(76, key("gpu_throttle_seconds_total", reason="sync_boost"), NANO),
    Field(269, key("gpu_throttle_seconds_total", reason="sw_thermal"), NANO),
    Field(270, key("gpu_throttle_seconds_total", reason="hw_thermal"), NANO),
    Field(271, key("gpu_throttle_seconds_total", reason="power_brake"), NANO),
    Field(197, key("gpu_pcie_tx_bytes_total")),
    Field(198, key("gpu_pcie_rx_bytes_total")),
    Field(138, key("gpu_nvlink_tx_bytes_total"), KIB, ALL_LINKS),
    Field(139, key("gpu_nvlink_rx_bytes_total"), KIB, ALL_LINKS),
)

NVLINK_TX = FAST_FIELDS[-2].key

# Where the counters of older NVLink generations are not supported.
NVLINK5_FIELDS = (
    Field(202, NVLINK_TX, scope=ALL_LINKS),
    Field(204, FAST_FIELDS[-1].key, scope=ALL_LINKS),
)

SLOW_FIELDS = (
    Field(190, key("gpu_power_limit_watts"), MILLI),
    Field(94, key("gpu_pcie_replays_total")),
    Field(3, key("gpu_ecc_errors_total", kind="corrected", scope="volatile")),
    Field(4, key("gpu_ecc_errors_total", kind="uncorrected", scope="volatile")),
    Field(5, key("gpu_ecc_errors_total", kind="corrected", scope="aggregate")),
    Field(6, key("gpu_ecc_errors_total", kind="uncorrected", scope="aggregate")),
    Field(31, key("gpu_retired_pages_pending")),
    Field(144, key("gpu_row_remap_pending")),
    Field(145, key("gpu_row_remap_failed")),
    Field(230, key("gpu_recovery_action")),
)

# Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h).
THROTTLE = tuple(
    (bit, key("gpu_throttle_active", reason=reason))
    for bit, reason in (
        (0x01, "idle"),
        (0x02, "app_clocks"),
        (0x04, "power_cap"),
        (0x08, "hw_slowdown"),
        (0x10, "sync_boost"),
        (0x20, "sw_thermal"),
        (0x40, "hw_thermal"),
        (0x80, "power_brake"),
    )
)

SM_CLOCK, MEMORY_CLOCK = (1,), (2,)


class Call(NamedTuple):
    """An NVML call that gives one number, times `factor` into `key`."""

    key: Key
    factor: float
    function: str
    args: tuple[int, ...] = ()


FAST_CALLS = (
    Call(key("gpu_clock_hertz", clock="sm"), MEGA, "nvmlDeviceGetClockInfo", SM_CLOCK),
    Call(key("gpu_clock_hertz", clock="memory"), MEGA, "nvmlDeviceGetClockInfo", MEMORY_CLOCK),
)

SLOW_CALLS = (
    Call(key("gpu_clock_max_hertz", clock="sm"), MEGA, "nvmlDeviceGetMaxClockInfo", SM_CLOCK),
    Call(
        key("gpu_clock_max_hertz", clock="memory"), MEGA, "nvmlDeviceGetMaxClockInfo", MEMORY_CLOCK
    ),
    Call(key("gpu_pcie_link_generation"), 1.0, "nvmlDeviceGetCurrPcieLinkGeneration"),
    Call(key("gpu_pcie_link_generation_max"), 1.0, "nvmlDeviceGetMaxPcieLinkGeneration"),
    Call(key("gpu_pcie_link_width"), 1.0, "nvmlDeviceGetCurrPcieLinkWidth"),
    Call(key("gpu_pcie_link_width_max"), 1.0, "nvmlDeviceGetMaxPcieLinkWidth"),
)
