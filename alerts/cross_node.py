"""What only a Prometheus over all nodes can see: one node against the others of its job."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.alerts.shape import Rule, alert

JOB = "job={{ $labels.job }}"

_WAIT = "avg_over_time(gpudiag_train_comm_wait_seconds[10m])"
_COMPUTE = "avg_over_time(gpudiag_train_compute_seconds[10m])"
_NODE = "by (cluster, job, instance)"
_RANKS = "group by (cluster, job, rank)"


def rules() -> Iterator[Rule]:
    """One by one; `gpudiag fleet` and `gpudiag diagnose` say more of the same."""
    yield alert(
        "GpudiagStragglingNode",
        # It computes longer than its peers and waits less: they wait for it. Both, because more
        # work alone may be its share of the model, and less waiting alone the end of a pipeline.
        f"avg {_NODE} ({_COMPUTE}) > on (cluster, job) group_left ()"
        f" 1.1 * quantile by (cluster, job) (0.5, {_COMPUTE})"
        f" and on (cluster, job, instance) avg {_NODE} ({_WAIT}) < on (cluster, job) group_left ()"
        f" 0.5 * quantile by (cluster, job) (0.5, {_WAIT})",
        "warning",
        "One node of a job holds up the others.",
        "{{ $labels.instance }} computes {{ $value | humanizeDuration }} a step in job"
        " {{ $labels.job }}, over a tenth more than the middle of its ranks, and waits for them"
        " less than half as long.",
        "straggler",
        section="slow-worker",
        subject=JOB,
        hold="10m",
    )
    yield alert(
        "GpudiagJobRanksMissing",
        f"count by (cluster, job) ({_RANKS} (max_over_time(gpudiag_train_info[30m])))"
        f" - count by (cluster, job) ({_RANKS} (gpudiag_train_info)) > 0",
        "warning",
        "Ranks of a job are gone while others go on.",
        "Job {{ $labels.job }}: {{ $value | humanize }} ranks of the last half hour tell nothing"
        " any more.",
        "training-interrupted",
        section="process-crash",
        subject=JOB,
        # A job that ends leaves within a minute or two; then there is none to compare with.
        hold="5m",
    )
    yield alert(
        "GpudiagNetworkErrors",
        "sum by (cluster, instance, device) (increase(gpudiag_network_errors_total[15m])) > 0"
        " and on (cluster, instance) group by (cluster, instance) (gpudiag_train_info)",
        "warning",
        "A network card of a node that trains has errors.",
        "Card {{ $labels.device }} of {{ $labels.instance }}: {{ $value | humanize }} errors in a"
        " quarter of an hour.",
        "network-link-flapping",
        # A burst when a cable is touched is over by then.
        hold="15m",
    )
