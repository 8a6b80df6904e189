"""Which metrics are asked for: those that rules read, in our words and in every dialect's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from gpudiag.probes.catalog import metrics
from gpudiag.probes.catalog.dialects import PARTS, dialects

OURS = "gpudiag_"

UNREAD = frozenset(
    OURS + name
    for name in (
        "action_budget_remaining",
        "actions_total",
        "agent_cpu_seconds_total",
        "agent_resident_bytes",
        "breaker_open",
        "build_info",
        "canary_requests_total",
        "canary_ttft_seconds",
        "channel_bytes_total",
        "channel_packets_total",
        "finding_active",
        "finding_evidence",
        "finding_rival",
        "findings_total",
        "gpu_energy_joules_total",
        "gpu_memory_busy_ratio",
        "hook_records_dropped_total",
        "kmsg_dropped_total",
        "kmsg_lost_total",
        "kmsg_repeats_total",
        "log_files",
        "log_files_unreadable",
        "log_lines_cut_total",
        "log_lines_dropped_total",
        "log_skipped_bytes_total",
        "memory_capture_seconds_total",
        "memory_captures_total",
        "network_drops_total",
        "network_rx_bytes_total",
        "network_tx_bytes_total",
        "samples_dropped_total",
        "symptom_unknown",
        "torch_active_bytes",
        "torch_device_allocs_total",
        "torch_requested_bytes",
        "torch_reserved_peak_bytes",
        "train_kernel_seconds",
        "train_step_duration_seconds",
    )
)
"""Metrics of the catalogue that no rule asks for: nobody need send them over a network."""


@cache
def histograms() -> frozenset[str]:
    """Whole names of histograms, ours and foreign: what a native one is called."""
    ours = {name for name, metric in metrics().items() if metric.kind == "histogram"}
    foreign = {
        name.removesuffix("_bucket")
        for dialect in dialects()
        for name in dialect.meanings
        if name.endswith("_bucket")
    }
    return frozenset((ours - UNREAD) | foreign)


@cache
def wanted() -> frozenset[str]:
    """Every name worth asking for, a native histogram's too."""
    return frozenset(_ours()) | frozenset(_foreign()) | histograms()


def _ours() -> Iterator[str]:
    for name, metric in metrics().items():
        if name not in UNREAD:
            yield from ((name + part for part in PARTS) if metric.kind == "histogram" else (name,))


def _foreign() -> Iterator[str]:
    for dialect in dialects():
        # What is made of several names of the dialect's own needs them all.
        own = {first for derived in dialect.derived for first in derived.of}
        for name, meanings in dialect.meanings.items():
            if any(meaning.to in own or _read(meaning.to) for meaning in meanings):
                yield name
        yield from (n for m in dialect.meanings.values() for one in m for n in one.unless)


def _read(ours: str) -> bool:
    whole = next((ours.removesuffix(p) for p in PARTS if ours.endswith(p)), ours)
    return ours not in UNREAD and whole not in UNREAD


def is_work(metric: str) -> bool:
    """Whether it tells of a job or a server, rather than of the machine below."""
    return metric in _foreign_work() or metric.startswith(
        (OURS + "train_", OURS + "torch_", OURS + "serving_", OURS + "checkpoint_")
    )


@cache
def _foreign_work() -> frozenset[str]:
    return frozenset(name for d in dialects() if d.identity for name in d.meanings)


@cache
def is_counter(metric: str) -> bool:
    """Whether it only rises, until its process begins anew."""
    meant = (one.to for dialect in dialects() for one in dialect.meanings.get(metric, ()))
    return any(name.endswith(("_total", *PARTS)) for name in (metric, *meant))
