"""Kernel lines in a log as causes: XIDs by GPU and burst, and the other facts by kind."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from gpudiag.agent.analysis.causes import Cause
from gpudiag.agent.analysis.kernel_words import CAUSES, WORDS
from gpudiag.probes import kernel_lines
from gpudiag.probes.catalog import Xid, recovery_actions, xids
from gpudiag.probes.catalog.nvlink import decode_nvlink4, decode_nvlink5
from gpudiag.probes.catalog.xid import burst_seconds, explain_burst, recovery_of
from gpudiag.probes.kernel_lines import KernelFact
from gpudiag.probes.kernel_patterns import Kind

FALLEN_OFF = 79
RECOVERY_CHANGED = 154
_NVLINK4 = 74

_UPTIME = re.compile(r"\[ *(\d{1,9}\.\d{3,6})\]")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")
# Other programs write lines like these too: only the kernel's own are taken.
_NEED_PREFIX: frozenset[Kind] = frozenset(
    {"link_down", "port_module", "nvlink", "fabric", "gpu_reset", "nfs_stalled"}
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A kernel fact with its line (from 1) and, where the line tells, its time in seconds."""

    line: int
    text: str
    fact: KernelFact
    time: float | None = None


def find(lines: Iterable[str]) -> list[Seen]:
    """Every kernel fact of a text, by line."""
    found = []
    for number, line in enumerate(lines, 1):
        fact = kernel_lines.parse(line)
        if fact and (fact.kind not in _NEED_PREFIX or _from_kernel(line)):
            found.append(Seen(number, line.strip()[:300], fact, _time(line)))
    return found


def causes(seen: Iterable[Seen]) -> Iterator[Cause]:
    """Each burst of XIDs on a GPU as one cause, and each other kind of fact once."""
    by_gpu: defaultdict[str, list[Seen]] = defaultdict(list)
    by_kind: defaultdict[Kind, list[Seen]] = defaultdict(list)
    for one in seen:
        if one.fact.kind in ("xid", "fallen_off_bus"):
            by_gpu[one.fact.pci].append(one)
        elif one.fact.kind in WORDS:
            by_kind[one.fact.kind].append(one)
    for pci, told in by_gpu.items():
        for burst in _bursts(told):
            yield _of_burst(pci, burst)
    for kind, told in by_kind.items():
        yield _of_kind(kind, told)


def _from_kernel(line: str) -> bool:
    return "NVRM" in line or kernel_lines.strip_prefix(line) != line.strip()


def _time(line: str) -> float | None:
    uptime = _UPTIME.search(line)
    if uptime:
        return float(uptime[1])
    stamp = _ISO.search(line)
    if not stamp:
        return None
    try:
        return datetime.fromisoformat(f"{stamp[1]}T{stamp[2]}+00:00").timestamp()
    except ValueError:
        return None


def _bursts(told: list[Seen]) -> Iterator[list[Seen]]:
    """Runs of lines each within a burst of the one before; without times all are one."""
    burst: list[Seen] = []
    for one in told:
        last = burst[-1].time if burst else None
        # A clock that runs backwards is a reboot, and another burst.
        apart = (one.time or 0.0) - (last or 0.0)
        if one.time is not None and last is not None and not 0.0 <= apart <= burst_seconds():
            yield burst
            burst = []
        burst.append(one)
    yield burst


def _code(one: Seen) -> int:
    return FALLEN_OFF if one.fact.kind == "fallen_off_bus" else one.fact.code or 0


def _of_burst(pci: str, burst: list[Seen]) -> Cause:
    told = explain_burst(code for one in burst if (code := _code(one)) != RECOVERY_CHANGED)
    code = (told.causes or told.consequences or (RECOVERY_CHANGED,))[0]
    mine = [one for one in burst if _code(one) == code]
    others = sorted({_code(one) for one in burst} - {code, RECOVERY_CHANGED})
    xid = xids().get(code)
    name = f"xid-{code}" if xid else "unknown-code"
    notes = (_decoded(mine[0], len(mine)), xid.note if xid else "")
    return Cause(
        cause=name,
        confidence=_confidence(xid),
        severity=xid.severity if xid else "warning",
        summary=_summary(pci, code, xid, mine[0].fact),
        line=mine[0].line,
        symptom="gpu-xid",
        who=pci,
        times=len(mine),
        evidence=(mine[0].text, *filter(None, notes)),
        rivals=tuple((f"xid-{other}", _why_not(code, other)) for other in others),
        todo=_verdict(burst) or _action(xid),
    )


def _confidence(xid: Xid | None) -> float:
    if xid is None:
        return 0.5
    return 0.8 if xid.fault in ("app", "consequence") else 0.95


def _summary(pci: str, code: int, xid: Xid | None, fact: KernelFact) -> str:
    gpu = f"The GPU at {pci}" if pci else "A GPU"
    if xid is None:
        return f"{gpu} reported XID {code}, which the catalogue does not know: nothing follows."
    process = f" (process {fact.name or 'unknown'}, pid {fact.pid})" if fact.pid else ""
    text = f"{gpu} reported XID {code}{process}: {xid.meaning}."
    if xid.fault == "consequence":
        text += " It only follows from something else: alone, a job ended or was killed."
    return text


def _action(xid: Xid | None) -> str:
    if xid is None:
        return "Ask NVIDIA's newest catalogue what it means before doing anything."
    return f"The catalogue's action: {xid.action.replace('_', ' ')}."


def _decoded(one: Seen, times: int) -> str:
    """What the registers in the line say, for the codes where they decide."""
    code = _code(one)
    if code == _NVLINK4:
        words = decode_nvlink4(one.text, times)
        hits = dict.fromkeys(hit.meaning for hit in words.hits) if words else {}
        return f"The registers say: {'; '.join(hits)}." if hits else ""
    error = decode_nvlink5(code, one.fact.detail)
    return (
        f"The line says: {error.unit}, {'fatal' if error.fatal else 'not fatal'}." if error else ""
    )


def _why_not(code: int, other: int) -> str:
    xid = xids().get(other)
    if xid is None:
        return "not in the catalogue: nothing may be concluded from it"
    if code in xid.consequence_of:
        return f"a known consequence of XID {code}"
    return "came in the same burst and is the lesser fault"


def _verdict(burst: list[Seen]) -> str:
    """The driver's own word, XID 154, stands above the catalogue's."""
    told = [one for one in burst if _code(one) == RECOVERY_CHANGED]
    verdict = recovery_of(told[-1].fact.detail) if told else None
    known = verdict and recovery_actions().get(verdict.value)
    return f"The driver's verdict: {known.meaning}." if known else ""


def _of_kind(kind: Kind, told: list[Seen]) -> Cause:
    said, first = WORDS[kind], told[0]
    fact = first.fact
    who = fact.name or fact.pci
    if fact.pid and fact.name:
        who = f"{fact.name} (pid {fact.pid})"
    fatal = kind in ("sxid", "aer") and any(one.fact.severity == "fatal" for one in told)
    return Cause(
        cause=CAUSES.get(kind, said.symptom or kind.replace("_", "-")),
        confidence=said.confidence,
        severity="critical" if fatal else said.severity,
        summary=f"{said.meaning}{f': {who}' if who else ''}.",
        line=first.line,
        symptom=said.symptom,
        who=who,
        times=len(told),
        evidence=(first.text,),
        todo=said.todo,
    )
