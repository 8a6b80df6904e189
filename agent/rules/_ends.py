"""How training processes ended: what their parents, the kernel and they themselves told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from gpudiag.agent.rules._jobs import Job, job_of, rank_of
from gpudiag.agent.rules._train_words import said
from gpudiag.probes import Event

_EXIT = re.compile(
    r"exit pid=(?P<pid>\d+)(?: name=(?P<name>\S+))?(?: rank=(?P<rank>\d+))?"
    r"(?: code=(?P<code>-?\d+))?(?: signal=(?P<signal>\S+))?(?: reason=(?P<reason>[\w-]+))?"
)
# Serving processes also have ranks; what befalls them is no training's interruption.
_SERVER = re.compile(r"vllm|sglang|EngineCore|server|triton|tgi", re.IGNORECASE)
_PYTHON = re.compile(r"python|pt_main|torch|train", re.IGNORECASE)
# 75 is EX_TEMPFAIL: a job that saved and left to be started again, as the agent asks it to.
_CANCELLED = (-15, -2, -1, 75)
_SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}


class End(NamedTuple):
    """One process of `job` that ended. `code` is negative for a signal, None where not known."""

    time: float
    job: Job
    rank: str
    pid: str
    code: int | None
    reason: str
    line: str
    source: str

    @property
    def clean(self) -> bool:
        """Whether it ended as it should."""
        return self.code == 0 or (self.code is None and self.reason in ("clean", "goodbye"))

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked it to end: an operator, a scheduler, its launcher."""
        return self.code in _CANCELLED

    @property
    def words(self) -> str:
        """`exit code 1`, `SIGSEGV`, or that it is not known."""
        if self.code is None:
            told = {"oom-kill": "killed for memory", "exception": "an exception"}
            return told.get(self.reason, "no exit code told")
        if self.code < 0:
            return _SIGNALS.get(-self.code, f"signal {-self.code}")
        return f"exit code {self.code}"


def end_of(known: Mapping[str, Job], event: Event) -> End | None:
    """The end of a training process that an event tells of; None where it tells of none."""
    if event.source in ("process", "torch"):
        return _of_event(known, event)
    ended = _in_log(known, event)
    return ended if ended and ended.code else None


def _in_log(known: Mapping[str, Job], event: Event) -> End | None:
    """As torchrun, the launcher, words it."""
    words = said(event.line)
    if words is None or words.code is None:
        return None
    job = job_of(known, event, words.pid) or Job("")
    rank = rank_of(job, event, words.pid) if words.pid else ""
    return End(event.time, job, rank, words.pid, words.code, "", event.line, event.source)


@lru_cache(maxsize=1024)
def _parsed(line: str) -> dict[str, str] | None:
    found = _EXIT.search(line)
    return {name: text or "" for name, text in found.groupdict().items()} if found else None


def _of_event(known: Mapping[str, Job], event: Event) -> End | None:
    told = _parsed(event.line)
    if told is None:
        return None
    pid, rank = told["pid"], told["rank"]
    reason = told["reason"] or event.fields.get("reason", "")
    job = job_of(known, event, pid, rank)
    mine = job is not None and any(of.get("pid") == pid for of in job.ranks.values())
    if not mine and (_SERVER.search(told["name"]) or not (rank or _PYTHON.match(told["name"]))):
        return None
    if job is None:
        if not rank or known:
            return None
        job = Job("")
    code = _signed(told["code"] or event.fields.get("code", ""))
    rank = rank_of(job, event, pid, rank)
    return End(event.time, job, rank, pid, code, reason, event.line, event.source)


def _signed(text: str) -> int | None:
    try:
        code = int(text)
    except ValueError:
        return None
    # A shell and a container runtime report a signal as 128 more than its number.
    return 128 - code if 128 < code < 128 + 65 else code
