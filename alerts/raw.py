"""Alerts that page even where the agent's engine does not judge: straight from the readings."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.alerts.shape import GPU, RANK, SERVER, Rule, alert, risen
from gpudiag.probes import catalog


def rules() -> Iterator[Rule]:
    """One by one; each has the labels of the engine's finding of the same, which silences it."""
    yield alert(
        "GpudiagRawGpuLost",
        "gpudiag_gpu_lost == 1",
        "critical",
        "The driver has lost a GPU.",
        "GPU {{ $labels.gpu }} ({{ $labels.uuid }}) does not answer the driver.",
        "gpu-lost",
        subject=GPU,
        hold="1m",
    )
    yield alert(
        "GpudiagRawXid",
        risen(f'gpudiag_gpu_xid_errors_total{{xid=~"{"|".join(map(str, _critical_xids()))}"}}'),
        "critical",
        "A GPU reported a critical XID.",
        "XID {{ $labels.xid }} on GPU {{ $labels.gpu }} ({{ $labels.uuid }}).",
        "gpu-xid",
        subject=GPU,
        section="xid-{{ $labels.xid }}",
    )
    yield alert(
        "GpudiagRawEccUncorrectable",
        'increase(gpudiag_gpu_ecc_errors_total{kind="uncorrected",scope="volatile"}[10m]) > 0',
        "critical",
        "A GPU had an uncorrectable memory error.",
        "GPU {{ $labels.gpu }} ({{ $labels.uuid }}): {{ $value | humanize }} in ten minutes.",
        "ecc-uncorrectable",
        subject=GPU,
    )
    yield alert(
        "GpudiagRawThermalThrottle",
        "sum by (uuid, gpu, instance)"
        ' (rate(gpudiag_gpu_throttle_seconds_total{reason=~"hw_thermal|sw_thermal"}[5m])) > 0.3',
        "warning",
        "A GPU slows itself down because it is hot.",
        "GPU {{ $labels.gpu }} ({{ $labels.uuid }}): {{ $value | humanizePercentage }} of the"
        " time.",
        "thermal-throttle",
        subject=GPU,
        hold="5m",
    )
    yield from _serving()
    yield alert(
        "GpudiagRawMemoryLeak",
        f"predict_linear(min_over_time(gpudiag_torch_allocated_bytes[30m])[6h:30m], {12 * 3600})"
        " > on (job, rank) group_left (uuid) max by (job, rank, uuid)"
        " (gpudiag_train_info * on (uuid) group_left ()"
        " max by (uuid) (gpudiag_gpu_memory_total_bytes))",
        "warning",
        "A rank's memory grows towards the end of its GPU.",
        "Job {{ $labels.job }}, rank {{ $labels.rank }}: the least of each half hour grows to"
        " {{ $value | humanize1024 }}B within twelve hours, more than the GPU has.",
        "memory-slow-growth",
        section="tensors-retained-across-steps",
        # The finding names the GPU too, where the rank's is known; here it is.
        subject=f"{GPU},{RANK}",
        # The floor of half an hour has seen an evaluation and a checkpoint; two floors more, and
        # it is no new phase of the training.
        hold="1h",
    )


def _serving() -> Iterator[Rule]:
    one = "on (instance, server, model, engine)"
    waiting = "sum by (instance, server, model, engine) (gpudiag_serving_requests_waiting)"
    yield alert(
        "GpudiagRawKvCacheFull",
        f"gpudiag_serving_kv_cache_usage_ratio > 0.95 and {one} {waiting} > 0"
        f" and {one} rate(gpudiag_serving_preemptions_total[5m]) > 0",
        "warning",
        "A server's cache is full: requests wait, others are thrown out and begin again.",
        "Server {{ $labels.server }}: {{ $value | humanizePercentage }} of the cache is used.",
        "serving-latency-high",
        section="overload",
        subject=SERVER,
        hold="5m",
    )
    yield alert(
        "GpudiagRawEngineStalled",
        "sum by (instance, server, model, engine) (gpudiag_serving_requests_running) > 0"
        f" and {one} rate(gpudiag_serving_generation_tokens_total[5m]) == 0",
        "critical",
        "A server has requests at work and writes no token.",
        "Server {{ $labels.server }}: {{ $value | humanize }} requests run, none goes on.",
        "serving-stalled",
        section="engine-hung",
        subject=SERVER,
        # Beyond the longest prefill of one request, which writes no token either.
        hold="5m",
    )


def _critical_xids() -> list[int]:
    return [code for code, xid in sorted(catalog.xids().items()) if xid.severity == "critical"]
