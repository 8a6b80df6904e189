"""The rules: one file per documented symptom, registered here by name."""

from __future__ import annotations

from importlib import import_module

from gpudiag.agent.rules.contract import Limits, Rule

_FILES = (
    "checkpoint_and_storage",
    "cpu_pressure",
    "crash_after_deploy",
    "disk_watermark",
    "driver_mismatch",
    "driver_reset_required",
    "ecc_uncorrectable",
    "fabric_manager_down",
    "fragmentation",
    "gpu_count_low",
    "gpu_lost",
    "gpu_xid",
    "host_memory_pressure",
    "loss_abnormal",
    "memory_slow_growth",
    "mixed_workload_contention",
    "multi_gpu_underperforms",
    "network_link_flapping",
    "not_ready",
    "nvlink_errors",
    "nvml_wedged",
    "output_quality_abnormal",
    "pcie_degraded",
    "power_brake",
    "profiling_source_broken",
    "rl_phase_imbalance",
    "replica_does_not_fit",
    "row_remap_failed",
    "row_remap_pending",
    "serving_latency_high",
    "serving_memory_growth",
    "serving_request_jitter",
    "serving_stalled",
    "serving_timeouts",
    "startup_incomplete",
    "startup_oom",
    "straggler",
    "thermal_throttle",
    "training_interrupted",
)


RULES: dict[str, Rule] = {
    name.replace("_", "-"): import_module(f"gpudiag.agent.rules.{name}").RULE for name in _FILES
}
"""Every rule by its symptom's id."""


def default_limits(rule: Rule) -> Limits:
    """The thresholds of a rule as shipped."""
    return {name: threshold.default for name, threshold in rule.thresholds.items()}
