"""What one line of a trainer's log says: timeouts of collectives, broken links, errors, resumes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

from gpudiag.agent.window.events import MAX_EVENTS
from gpudiag.probes.logs.prefix import without_prefix

Kind = Literal[
    "timeout", "join", "network", "closed", "exit", "oom", "data", "error", "resume", "scratch",
    "saved",
]  # fmt: skip


class Said(NamedTuple):
    """One line that matters. `rank` is the one that speaks, `culprit` the one it complains of.

    `sequence` is the collective that failed, `enqueued` and `completed` the last ones of its
    process group; `step` what was saved or resumed; all None where the line does not say.
    """

    kind: Kind
    text: str
    rank: str = ""
    culprit: str = ""
    sequence: int | None = None
    operation: str = ""
    enqueued: int | None = None
    completed: int | None = None
    step: int | None = None
    code: int | None = None
    pid: str = ""


_KINDS: tuple[tuple[Kind, str], ...] = (
    (
        "join",
        r"store based barrier|Timed out after \d+ seconds waiting for clients"
        r"|(?:client socket has )?timed out after \d+m?s? while trying to connect"
        r"|RendezvousTimeoutError|wait timeout after \d+ms, keys:",
    ),
    (
        "timeout",
        r"collective operation timeout|detected by watchdog at work|Timeout at NCCL work"
        r"|Timed out waiting \d+ms for (?:recv|send)|due to a collective timeout"
        r"|watchdog got stuck for|failed to pass monitoredBarrier|Collective .{0,40}timed out",
    ),
    (
        "network",
        r"NET/IB ?: .{0,40}(?:async event|error)|async fatal event|status=1[0-3]\b|vendor err \d+"
        r"|No route to host|Network is (?:un)?reachable|Network is down|NET/Socket ?: .{0,60}error"
        r"|transport retry counter exceeded|\bport error\b",
    ),
    (
        "closed",
        r"Connection (?:closed by (?:remote )?peer|reset by peer|refused)|ncclRemoteError"
        r"|remote process exited or there was a network error|NCCL communicator was aborted"
        r"|[Bb]roken pipe|recvBytes failed|Socket Timeout",
    ),
    ("exit", r"failed \(exitcode: -?\d+\)|\bexitcode\s*:\s*-?\d+ *\(pid"),
    (
        "oom",
        r"out of memory|OutOfMemoryError|_STATUS_ALLOC_FAILED|DefaultCPUAllocator",
    ),
    (
        "data",
        r"DataLoader worker .{0,60}(?:killed|exited)|Caught \w+ in DataLoader worker"
        r"|(?:FileNotFoundError|PermissionError|BlockingIOError|EOFError)\b"
        r"|OSError: \[Errno (?:2|5|13|23|24|116|121)\]|Input/output error|Stale file handle"
        r"|UnidentifiedImageError|JSONDecodeError|UnicodeDecodeError|ArrowInvalid|BadZipFile"
        r"|UnpicklingError|tarfile\.ReadError|zlib\.error|image file is truncated",
    ),
    (
        "scratch",
        r"(?i:start\w*|train\w*) from scratch|[Nn]o checkpoint (?:was )?found"
        r"|could not find (?:the metadata|any checkpoint|a checkpoint)|will start from random",
    ),
    (
        "resume",
        r"(?i:resum\w+|restor\w+|load(?:ed|ing))\b.{0,160}?\b(?:step|iteration|iter)\b",
    ),
    ("saved", r"(?i:sav(?:ed|ing)\b).{0,160}?\b(?:step|iteration|iter)\b"),
    (
        "error",
        r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt)\b|Fatal Python error"
        r"|Segmentation fault|Bus error|core dumped|terminate called after",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)
_MAYBE = re.compile(
    r"imeout|imed out|watchdog|NET/|status=1|vendor err|route to host|etwork is|onnection"
    r"|ncclRemote|remote process|communicator|roken pipe|recvBytes|exitcode|emory|_FAILED|oader"
    r"|Error|Exception|rror\b|Errno|handle|truncated|scratch|heckpoint|[Rr]esum|terminate"
    r"|Interrupt|fault|dumped|barrier|Barrier|counter exceeded|[Ii]teration|could not find"
    r"|ArrowInvalid|BadZip"
)
_RANK = re.compile(r"\[(?:default)?[rR]ank ?(\d+)\]|\b[rR]ank ?[=:]? ?(\d+)\b")
_CULPRIT = re.compile(r"\b[Rr]ank (\d+) (?:failed to pass|never entered|entered another)")
_SEQUENCE = re.compile(
    r"SeqNum=(\d+)|work sequence id: (\d+)|Timeout at NCCL work: (\d+)|watchdog at work: (\d+)"
)
_OPERATION = re.compile(r"OpType=(\w+)")
_ENQUEUED = re.compile(r"last enqueued(?: NCCL)? work: (-?\d+)")
_COMPLETED = re.compile(r"last completed(?: NCCL)? work: (-?\d+)")
_STEP = re.compile(r"\b(?:step|iteration|iter)[ =:_#]*(\d+)", re.IGNORECASE)
_ABOUT_CHECKPOINTS = re.compile(r"ckpt|checkpoint|resum", re.IGNORECASE)
_EXIT = re.compile(r"exitcode ?\s*: ?(-?\d+)\)?.*?\(pid: ?(\d+)\)")


@lru_cache(maxsize=2 * MAX_EVENTS)
def said(line: str) -> Said | None:
    """What the line says, None where it says nothing of these."""
    if not _MAYBE.search(line):
        return None
    text = without_prefix(line)
    # In this order: an exception that tells of a broken connection is told as that.
    kind = next((k for k, pattern in _PATTERNS if pattern.search(text)), None)
    if kind is None:
        return None
    ended = _EXIT.search(line)
    step = _STEP.search(text) if kind in ("resume", "saved") else None
    if kind in ("resume", "saved") and (step is None or not _ABOUT_CHECKPOINTS.search(line)):
        return None
    operation, culprit = _OPERATION.search(line), _CULPRIT.search(line)
    return Said(
        kind=kind,
        text=text,
        rank=_first(_RANK, line),
        culprit=culprit[1] if culprit else "",
        sequence=_number(_SEQUENCE, line),
        operation=operation[1] if operation else "",
        enqueued=_number(_ENQUEUED, line),
        completed=_number(_COMPLETED, line),
        step=int(step[1]) if step else None,
        code=int(ended[1]) if ended else None,
        pid=ended[2] if ended else "",
    )


def _first(pattern: re.Pattern[str], line: str) -> str:
    found = pattern.search(line)
    return next((group for group in found.groups() if group), "") if found else ""


def _number(pattern: re.Pattern[str], line: str) -> int | None:
    text = _first(pattern, line)
    return int(text) if text else None
