"""The catalogues: what is known about metrics, symptoms, XIDs and driver codes, as data."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Kind = Literal["gauge", "counter", "histogram", "info"]
Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `unit` is its Prometheus base unit, `labels` what it always or may carry."""

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...]
    source: str
    otel: str


@dataclass(frozen=True, slots=True)
class Symptom:
    """One symptom of SYMPTOMS: its causes, its usual severity and where it is documented."""

    id: str
    title: str
    severity: Severity
    causes: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Xid:
    """One XID code. `action` is our choice; where sources disagree, `reason` says why.

    `consequence_of` are codes whose presence explains this one; `linked_154` is the driver
    branch from which XID 154 carries the verdict (0 = never).
    """

    code: int
    meaning: str
    fault: str
    action: str
    severity: Severity
    consequence_of: tuple[int, ...]
    linked_154: int
    reason: str


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(files("gpudiag.probes.catalog").joinpath(name).read_text("utf-8"))


@cache
def metrics() -> dict[str, Metric]:
    """Every metric by name, from `metrics.toml`."""
    return {m["name"]: _metric(m) for m in _load("metrics.toml")["metric"]}


def _metric(row: dict[str, Any]) -> Metric:
    return Metric(
        name=row["name"],
        kind=row["kind"],
        unit=row.get("unit", ""),
        help=row["help"],
        labels=tuple(row.get("labels", ())),
        source=row.get("source", ""),
        otel=row.get("otel", ""),
    )
