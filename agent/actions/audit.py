"""The audit: one JSON line per decision, taken or refused, on the disk before anything is done."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from gpudiag.agent.actions.contract import Plan

log = logging.getLogger(__name__)

Decision = Literal[
    "dry_run",
    "refused",
    "waiting",
    "approved",
    "denied",
    "begun",
    "done",
    "failed",
    "verified",
    "not_verified",
    "worse",
    "undone",
    "breaker",
]


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about a plan, when (epoch seconds), by whom and why."""

    time: float
    decision: Decision
    actor: str
    why: str
    plan: Plan


class Sink(Protocol):
    """Where audit lines are mirrored: metric, Kubernetes Event, webhook. Must not raise."""

    def __call__(self, line: Line, /) -> None: ...


class Audit:
    """Appends to one file, its owner's alone, and mirrors each line; a full file moves to `.1`."""

    def __init__(
        self, path: Path, sinks: Sequence[Sink] = (), max_bytes: int = 16 * 1024**2
    ) -> None:
        self._path = path
        self._sinks = sinks
        self._max_bytes = max_bytes
        self._lock = threading.Lock()

    def write(self, line: Line) -> None:
        """Write it through to the disk; raises `OSError` where that fails: then nothing is done."""
        with self._lock:
            self._append(msgspec.json.encode(line) + b"\n")
        log.info("%s %s at %s: %s", line.decision, line.plan.action, line.plan.target, line.why)
        for sink in self._sinks:
            try:
                sink(line)
            except Exception:
                # A mirror that fails must cost neither the line nor what it is about.
                log.exception("an audit line was not mirrored")

    def _append(self, text: bytes) -> None:
        if self._path.exists() and self._path.stat().st_size + len(text) > self._max_bytes:
            self._path.replace(self._path.with_name(self._path.name + ".1"))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            # A line cut short by a full disk would spoil the next: it starts one of its own.
            if os.write(descriptor, text) != len(text):
                os.write(descriptor, b"\n")
                raise OSError(f"{self._path} took only a part of an audit line: is the disk full?")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
