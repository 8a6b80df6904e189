"""What one XID means: by the catalogue, and by its own line where the catalogue says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpudiag.agent.rules._xids import Sighting
from gpudiag.probes.catalog import RecoveryAction, xids
from gpudiag.probes.catalog.nvlink import decode_nvlink4, decode_nvlink5
from gpudiag.probes.catalog.records import Fault, Severity, XidAction
from gpudiag.probes.catalog.xid import burst_seconds

NVLINK4 = 74
ENGINE_EXCEPTION = 13
PAGE_FAULT = 31

_UNIT = re.compile(r"GPC (\d+), TPC (\d+)")
_LINK = re.compile(r"\blink (\d+)", re.IGNORECASE)
_BY_VERDICT: dict[XidAction, Severity] = {"none": "info", "restart_app": "warning"}


@dataclass(frozen=True, slots=True)
class Ruling:
    """`known` is false for a code outside the catalogue: nothing may be concluded from it."""

    meaning: str
    fault: Fault
    action: XidAction
    severity: Severity
    known: bool = True
    note: str = ""


def ruling(sighting: Sighting, seen: int = 1) -> Ruling:
    """What the code or its line asks for; `seen` is how often it came in the last day."""
    xid = xids().get(sighting.code)
    if xid is None:
        return Ruling("not in the catalogue", "unknown", "none", "warning", known=False)
    said = Ruling(xid.meaning, xid.fault, xid.action, xid.severity, note=xid.note)
    if xid.action != "decode":
        return said
    if xid.code == NVLINK4:
        return _nvlink4(said, sighting.line, seen)
    return _nvlink5(said, xid.code, sighting.detail)


def _nvlink4(said: Ruling, line: str, seen: int) -> Ruling:
    words = decode_nvlink4(line, seen)
    if words is None or not words.hits:
        return said
    severity: Severity = "warning" if words.action == "none" else "critical"
    note = "; ".join(dict.fromkeys(hit.meaning for hit in words.hits))
    return replace(said, action=words.action, severity=severity, note=f"The registers say: {note}.")


def _nvlink5(said: Ruling, code: int, detail: str) -> Ruling:
    error = decode_nvlink5(code, detail)
    if error is None:
        return said
    # Its own decode sheet: without a verdict by 154, restart the application.
    action = "restart_app" if error.action == "follow_154" else error.action
    link = "" if error.link is None else f" on link {error.link}"
    word = "fatal" if error.fatal else "not fatal"
    note = f"The line says: {error.unit}{link}, {word}."
    return replace(said, action=action, severity=error.severity, note=note)


def with_verdict(said: Ruling, verdict: RecoveryAction | None) -> Ruling:
    """The driver's own verdict stands above the catalogue's advice for a GPU."""
    if verdict is None or verdict.action == "none":
        return said
    severity = _BY_VERDICT.get(verdict.action, "critical")
    return replace(said, action=verdict.action, severity=severity)


def suspects_hardware(code: int, mine: Sequence[Sighting], elsewhere: bool) -> bool:
    """Whether repeats of an application's fault point at the GPU.

    Page faults: twice in 24 h on one GPU and on no other. Engine exceptions: twice in the same
    part of the chip. Sources: NVIDIA's workflows for 13 and 31, NVSentinel's limits.
    """
    if code == PAGE_FAULT:
        return not elsewhere and len(apart(mine)) >= 2
    if code == ENGINE_EXCEPTION:
        units = {u[0] for s in mine if (u := _UNIT.search(s.detail))}
        return any(len(apart([s for s in mine if unit in s.detail])) >= 2 for unit in units)
    return False


def apart(sightings: Sequence[Sighting]) -> list[Sighting]:
    """The first of each burst: one fault writes several lines."""
    found: list[Sighting] = []
    last = -float("inf")
    for sighting in sightings:
        if sighting.time - last > burst_seconds():
            found.append(sighting)
        last = sighting.time
    return found


def same_link(one: Sighting, others: Sequence[Sighting]) -> int:
    """How many of `others` name the link that `one` names; all of them where it names none."""
    link = _LINK.search(one.detail)
    if link is None:
        return len(others)
    return sum(1 for s in others if (m := _LINK.search(s.detail)) and m[1] == link[1])
