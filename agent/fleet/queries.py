"""What is asked of a server about a whole fleet: one figure a node or job, never one a GPU."""

from __future__ import annotations

from dataclasses import dataclass

_BY = "cluster, node, instance"
_JOB = "cluster, job, exported_job"
_WAIT = "avg_over_time(gpudiag_train_comm_wait_seconds[5m])"
_COMPUTE = "avg_over_time(gpudiag_train_compute_seconds[5m])"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording rule: its name as level:metric:operations, what it records, and what for."""

    name: str
    expr: str
    why: str


BUSY = Recorded(
    "node:gpudiag_gpu_utilization_ratio:avg",
    f"avg by ({_BY}) (gpudiag_gpu_utilization_ratio)",
    "how busy a node's GPUs are",
)
VERSIONS = Recorded(
    "node:gpudiag_gpu_info:count",
    f"count by ({_BY}, driver, cuda, name) (gpudiag_gpu_info)",
    "a node's driver, CUDA and model of GPU",
)
RANKS = Recorded(
    "node_job:gpudiag_train_info:count",
    f"count by ({_BY}, job, exported_job) (gpudiag_train_info)",
    "how many ranks of which job run on a node",
)
STEP = Recorded(
    "job:gpudiag_train_step_seconds:median",
    f"quantile by ({_JOB}) (0.5, gpudiag_train_step_seconds)",
    "a job's usual step",
)
BEHIND = Recorded(
    "job:gpudiag_train_compute_seconds:max_less_median",
    f"max by ({_JOB}) ({_COMPUTE}) - quantile by ({_JOB}) (0.5, {_COMPUTE})",
    "by how much a job's slowest rank computes longer than its usual one",
)

WAITED = Recorded(
    "job:gpudiag_train_comm_wait_seconds:median_less_min",
    f"quantile by ({_JOB}) (0.5, {_WAIT}) - min by ({_JOB}) ({_WAIT})",
    "by how much a job's usual rank waits longer than the one all wait for",
)

RECORDED = (BUSY, VERSIONS, RANKS, STEP, BEHIND, WAITED)
"""Recorded once a minute; without them each question reads a series for every GPU or rank."""

FINDINGS = "gpudiag_finding_active > 0"
GPUS = "gpudiag_gpus"
EXPECTED = "gpudiag_gpus_expected"
AGENTS = "gpudiag_build_info"
GONE = f"max_over_time({AGENTS}[1h]) unless {AGENTS}"
BLIND = "gpudiag_symptom_unknown"
PLACES = ("kube_node_labels", "kube_node_info")
"""Of kube-state-metrics: a node's own labels, its image and kernel."""
