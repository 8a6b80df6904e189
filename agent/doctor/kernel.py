"""Doctor's lines about the kernel's log: what it told since boot, with meaning and next step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line, State, judged
from gpudiag.agent.rules._xid_advice import ADVICE
from gpudiag.agent.rules._xid_ruling import Ruling, ruling
from gpudiag.agent.rules._xids import FALLEN_OFF, Sighting
from gpudiag.probes import Event, catalog

AREA = "kernel log"
_XID_KINDS = ("xid", "fallen_off_bus")
_QUIET = frozenset({*_XID_KINDS, "driver_load", "driver_unload", "gpu_reset", "link_up"})
_WORDS = {
    "sxid": "NVSwitch errors (SXid)",
    "oom_kill": "processes killed for lack of memory",
    "link_down": "network links down",
    "port_module": "network port module events",
    "hung_task": "hung tasks",
    "init_failed": "GPUs that failed to start",
    "api_mismatch": "driver version mismatches",
    "nvlink": "NVLink errors",
    "fabric": "NVLink fabric errors",
    "pcie_link_down": "PCIe links down",
    "aer": "PCIe errors (AER)",
    "machine_check": "machine checks",
    "fs_error": "file system errors",
    "io_error": "disk errors",
    "nfs_stalled": "stalls of a network file system",
    "segfault": "crashed processes",
}


@dataclass(frozen=True, slots=True)
class _Xid:
    pci: str
    code: int
    count: int
    last: float
    ruling: Ruling


def lines(look: Look) -> list[Line]:
    """The state of the log itself, the XIDs by GPU, and the other facts by kind."""
    status = look.statuses.get("kmsg")
    if status is None:
        return [Line(AREA, "log", "absent", "The kmsg probe is switched off.")]
    if not (status.available and status.ok) or "kmsg" in look.silent:
        seen = status.detail or "the kernel's log does not answer"
        todo = "Run as root or with CAP_SYSLOG, and mount /dev/kmsg; `dmesg -T` may still work."
        return [Line(AREA, "log", "unknown", seen, todo)]
    events = [event for event in look.events if event.source == "kmsg"]
    lost = look.value("gpudiag_kmsg_lost_total")
    seen = f"{len(events)} GPU, memory, link and disk events since boot"
    if lost:
        seen += f"; {lost:.0f} lines were overwritten before they could be read"
    return [Line(AREA, "log", "ok", seen), *_xids(look, events), *_others(events)]


def _xids(look: Look, events: Sequence[Event]) -> list[Line]:
    grouped: defaultdict[tuple[str, int], list[Event]] = defaultdict(list)
    for event in events:
        if event.type in _XID_KINDS:
            code = int(event.fields.get("code", FALLEN_OFF))
            grouped[event.fields.get("pci", ""), code].append(event)
    xids = [_xid(pci, code, told) for (pci, code), told in grouped.items()]
    firing = look.of("gpu-xid")
    return [
        judged(
            _line(xid, xids, _last_reset(events, xid.pci)),
            [f for f in firing if f.cause == f"xid-{xid.code}"],
        )
        for xid in sorted(xids, key=lambda x: (x.pci, x.code))
    ]


def _xid(pci: str, code: int, told: Sequence[Event]) -> _Xid:
    count = sum(int(event.fields.get("repeats") or 1) for event in told)
    newest = told[-1]
    detail = newest.fields.get("detail", "")
    sighting = Sighting(newest.time, code, count, newest.line, detail)
    return _Xid(pci, code, count, newest.time, ruling(sighting, count))


def _last_reset(events: Iterable[Event], pci: str) -> float:
    resets = [e.time for e in events if e.type == "gpu_reset" and e.fields.get("pci") == pci]
    loads = [e.time for e in events if e.type == "driver_load"]
    return max(resets + loads, default=0.0)


def _line(xid: _Xid, xids: Sequence[_Xid], reset: float) -> Line:
    known = catalog.xids().get(xid.code)
    codes = {other.code for other in xids if other.pci == xid.pci}
    cause = sorted(codes & set(known.consequence_of)) if known else []
    seen = f"{xid.count} x {xid.ruling.meaning}"
    check = f"XID {xid.code} on {xid.pci or 'a GPU not named'}"
    if cause:
        return Line(AREA, check, "note", f"{seen}; follows from XID {cause[0]} on the same GPU")
    advice = ADVICE[xid.ruling.action]
    lasting = xid.ruling.severity == "critical" and xid.last > reset
    state: State = "warning" if lasting else "note"
    return Line(AREA, check, state, seen, advice[0].text if advice else "")


def _others(events: Sequence[Event]) -> list[Line]:
    grouped: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        if event.type and event.type not in _QUIET:
            grouped[event.type].append(event)
    return [_other(kind, told) for kind, told in sorted(grouped.items())]


def _other(kind: str, told: Sequence[Event]) -> Line:
    count = sum(int(event.fields.get("repeats") or 1) for event in told)
    seen = f"{count} since boot, the last: {told[-1].line}"
    return Line(AREA, _WORDS.get(kind, kind), "note", seen)
