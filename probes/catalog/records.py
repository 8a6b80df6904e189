"""The records of the catalogues, one frozen dataclass per table, and the words they may use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["gauge", "counter", "histogram", "info"]
Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
Fault = Literal[
    "app",
    "driver",
    "firmware",
    "hardware",
    "link",
    "power",
    "security",
    "consequence",
    "test",
    "unknown",
]
XidAction = Literal[
    "none",
    "check_app",
    "restart_app",
    "drain_and_reset",
    "reset_gpu",
    "reboot_node",
    "restart_vm",
    "replace_gpu",
    "check_mechanicals",
    "update_software",
    "contact_support",
    "follow_154",
    "decode",
]
Trouble = Literal["none", "agent", "driver", "gpu", "caller", "absent"]


def gravity(severity: str) -> int:
    """0 for the mildest severity, one more for each worse; `ValueError` for any other word."""
    return [str(known) for known in SEVERITIES].index(severity)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `unit` is its Prometheus base unit, `labels` what it always or may carry.

    `source` names the probe, `otel` the OpenTelemetry name.
    """

    name: str
    kind: Kind
    help: str
    source: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    otel: str = ""


@dataclass(frozen=True, slots=True)
class Symptom:
    """One documented symptom: its causes, its usual severity and where it is documented.

    `explained_by` are the findings, as `symptom` or `symptom/cause`, under which this one folds
    when both share their subject.
    """

    id: str
    title: str
    severity: Severity
    source: str
    causes: tuple[str, ...] = ()
    explained_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Xid:
    """One XID code. `action` is our choice; where sources disagree, `reason` says why.

    `consequence_of` are codes whose presence explains this one; `linked_154` is the driver
    branch from which XID 154 carries the verdict (0 = never). `action` "decode" means that the
    line itself decides (`nvlink.decode_nvlink5`, `nvlink.decode_nvlink4`).
    """

    code: int
    meaning: str
    fault: Fault
    action: XidAction
    severity: Severity
    consequence_of: tuple[int, ...] = ()
    linked_154: int = 0
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class ClockEvent:
    """A reason for a lowered clock. `duration_field` is its NVML field id (0 = has no counter)."""

    bit: int
    name: str
    meaning: str
    duration_field: int = 0


@dataclass(frozen=True, slots=True)
class NvmlCode:
    """An NVML return code: whose trouble it is and what to do about it."""

    code: int
    name: str
    meaning: str
    trouble: Trouble
    todo: str


@dataclass(frozen=True, slots=True)
class RecoveryAction:
    """A value of NVML's recovery action. `xid_154` is how the kernel line words it, if it does."""

    value: int
    name: str
    meaning: str
    action: XidAction
    xid_154: str = ""
