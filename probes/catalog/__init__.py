"""The catalogues: what is known about metrics, symptoms, XIDs and driver codes, as data."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from gpudiag.probes.catalog import load
from gpudiag.probes.catalog.records import (
    SEVERITIES,
    ClockEvent,
    Kind,
    Metric,
    NvmlCode,
    RecoveryAction,
    Severity,
    Symptom,
    Xid,
    gravity,
)
from gpudiag.probes.errors import UsageError

__all__ = [
    "SEVERITIES",
    "ClockEvent",
    "Kind",
    "Metric",
    "NvmlCode",
    "RecoveryAction",
    "Severity",
    "Symptom",
    "Xid",
    "clock_events",
    "gravity",
    "metrics",
    "nvml_codes",
    "recovery_actions",
    "symptoms",
    "xids",
]


@cache
def metrics() -> dict[str, Metric]:
    """Every metric by name, from `metrics.toml`."""
    return load.keyed(map(_metric, load.read("metrics.toml")["metric"]), lambda m: m.name)


@cache
def symptoms() -> dict[str, Symptom]:
    """Every symptom by id, from `symptoms.toml`; `undetermined` is a cause of each, not listed."""
    rows = (load.build(Symptom, row) for row in load.read("symptoms.toml")["symptom"])
    found = load.keyed(map(_with_xid_causes, rows), lambda s: s.id)
    for symptom in found.values():
        _check_explanations(symptom, found)
    load.refuse_circle(
        {s.id: [e.partition("/")[0] for e in s.explained_by] for s in found.values()},
        "explained_by in symptoms.toml",
    )
    return found


@cache
def xids() -> dict[int, Xid]:
    """Every documented XID by code, from `xid.toml`; a code that is not here is unknown."""
    rows = (xid for row in load.read("xid.toml")["xid"] for xid in _xids(row))
    found = load.keyed(rows, lambda x: x.code)
    for xid in found.values():
        if unknown := set(xid.consequence_of) - found.keys():
            raise UsageError(f"xid.toml: {xid.code} is a consequence of unknown {sorted(unknown)}")
    load.refuse_circle(
        {x.code: x.consequence_of for x in found.values()}, "consequence_of in xid.toml"
    )
    return found


@cache
def clock_events() -> dict[int, ClockEvent]:
    """Every reason for a lowered clock by its NVML bit, from `clock_events.toml`."""
    rows = load.read("clock_events.toml")["clock_event"]
    return load.keyed((load.build(ClockEvent, row) for row in rows), lambda e: e.bit)


@cache
def nvml_codes() -> dict[int, NvmlCode]:
    """Every NVML return code by number, from `nvml_codes.toml`."""
    rows = load.read("nvml_codes.toml")["code"]
    return load.keyed((load.build(NvmlCode, row) for row in rows), lambda c: c.code)


@cache
def recovery_actions() -> dict[int, RecoveryAction]:
    """NVML's recovery actions by value, from `nvml_codes.toml`."""
    rows = load.read("nvml_codes.toml")["recovery_action"]
    return load.keyed((load.build(RecoveryAction, row) for row in rows), lambda a: a.value)


def _metric(row: dict[str, Any]) -> Metric:
    metric = load.build(Metric, row)
    base = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
    if (metric.kind == "counter") != metric.name.endswith("_total"):
        raise UsageError(f"metrics.toml: {metric.name}: _total is the ending of counters alone")
    if metric.unit and not base.endswith(f"_{metric.unit}"):
        raise UsageError(f"metrics.toml: {metric.name} does not end in its unit {metric.unit}")
    return metric if metric.otel else replace(metric, otel=_otel_name(base, metric.unit))


def _otel_name(base: str, unit: str) -> str:
    """`gpudiag_gpu_power_limit` in watts is `gpudiag.gpu.power_limit`: OTel keeps units apart."""
    bare = base.removesuffix(f"_{unit}") if unit else base
    return bare.replace("_", ".", 2)


def _with_xid_causes(symptom: Symptom) -> Symptom:
    if symptom.id != "gpu-xid":
        return symptom
    return replace(symptom, causes=(*(f"xid-{code}" for code in xids()), "unknown-code"))


def _check_explanations(symptom: Symptom, known: dict[str, Symptom]) -> None:
    for name in symptom.explained_by:
        other, _, cause = name.partition("/")
        if other not in known or (cause and cause not in known[other].causes):
            raise UsageError(f"symptoms.toml: {symptom.id} is explained by unknown {name}")


def _xids(row: dict[str, Any]) -> list[Xid]:
    codes = load.ranges(str(row.get("codes", row.get("code", ""))))
    shared = {key: value for key, value in row.items() if key not in {"code", "codes"}}
    return [load.build(Xid, {"code": code, **shared}) for code in codes]
