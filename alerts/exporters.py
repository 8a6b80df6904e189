"""The raw alerts for those who have no agent: dcgm-exporter's and the servers' own metrics.

Old and new names stand side by side, as dcgm-exporter 4.6 and vLLM changed theirs; the dialects of
the catalogue hold which is which. No cause is told here: that is the agent's part.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.alerts.shape import Rule, alert
from gpudiag.probes import catalog
from gpudiag.probes.catalog.dialects import dialects

_THERMAL = 0x20
"""The first of two bits of dcgm's mask, software and hardware thermal slowdown (nvml.h)."""


def rules() -> Iterator[Rule]:
    """One by one."""
    yield from _gpus()
    yield from _servers()


def names(dialect: str, meaning: str, only: str = "") -> list[str]:
    """The names with `only` in them under which a dialect tells a metric of ours, old and new."""
    (one,) = (found for found in dialects() if found.name == dialect)
    told = {name for name, meant in one.meanings.items() if any(m.to == meaning for m in meant)}
    # OpenMetrics' second spelling of the same is seen by no Prometheus that scrapes text.
    return sorted(n for n in told if n.removesuffix("_total") not in told - {n} and only in n)


def _any(dialect: str, meaning: str, form: str = "{}", only: str = "") -> str:
    """The same expression over each of the names; where none is scraped it is empty."""
    return " or ".join(form.format(name) for name in names(dialect, meaning, only))


def _gpus() -> Iterator[Rule]:
    where = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"
    critical = [code for code, xid in sorted(catalog.xids().items()) if xid.severity == "critical"]
    last = _any("dcgm", "gpudiag_gpu_xid_errors_total")
    before = _any("dcgm", "gpudiag_gpu_xid_errors_total", "{} offset 1h")
    yield alert(
        "GpudiagDcgmXid",
        " or ".join(f"(({last}) == {code} unless ({before}) == {code})" for code in critical),
        "critical",
        "A GPU had a critical XID within the hour.",
        f"{where}: XID {{{{ $value }}}}. dcgm-exporter keeps it until the next one, so that"
        " the same one again is not seen, and this alert ends after an hour.",
        "gpu-xid",
        section="xid-{{ $value }}",
    )
    mask = f"({_any('dcgm', 'gpudiag_gpu_throttle_active')})"
    yield alert(
        "GpudiagDcgmThermalThrottle",
        f"floor({mask} / {_THERMAL}) % 4 > 0",
        "warning",
        "A GPU slows itself down because it is hot.",
        f"{where} has said so for five minutes.",
        "thermal-throttle",
        hold="5m",
    )
    yield alert(
        "GpudiagDcgmEccUncorrectable",
        _any("dcgm", "gpudiag_gpu_ecc_errors_total", "increase({}[10m]) > 0", "DBE"),
        "critical",
        "A GPU had an uncorrectable memory error.",
        f"{where}: {{{{ $value | humanize }}}} in ten minutes.",
        "ecc-uncorrectable",
    )
    yield alert(
        "GpudiagDcgmRowRemapFailed",
        _any("dcgm", "gpudiag_gpu_row_remap_failed", "{} > 0"),
        "critical",
        "A GPU has no spare memory row left.",
        f"{where} must be replaced.",
        "row-remap-failed",
    )


def _servers() -> Iterator[Rule]:
    full = [
        _any(name, "gpudiag_serving_kv_cache_usage_ratio", "{} > 0.95")
        for name in ("vllm", "sglang")
    ]
    waiting = ["vllm:num_requests_waiting", "sglang:num_queue_reqs"]
    yield alert(
        "GpudiagServerCacheFull",
        " or ".join(
            f"({usage}) and on (instance, model_name) sum by (instance, model_name) ({queue}) > 0"
            for usage, queue in zip(full, waiting, strict=True)
        ),
        "warning",
        "A server's cache is full and requests wait.",
        "{{ $labels.instance }}: {{ $value | humanizePercentage }} of the cache is used.",
        "serving-latency-high",
        section="overload",
        hold="5m",
    )
    running, written = "vllm:num_requests_running", "vllm:generation_tokens_total"
    yield alert(
        "GpudiagServerStalled",
        f"sum by (instance, model_name) ({running}) > 0 and on (instance, model_name)"
        f" sum by (instance, model_name) (rate({written}[5m])) == 0",
        "critical",
        "A server has requests at work and writes no token.",
        "{{ $labels.instance }}: {{ $value | humanize }} requests run, none goes on.",
        "serving-stalled",
        section="engine-hung",
        # Beyond the longest prefill of one request, which writes no token either.
        hold="5m",
    )
