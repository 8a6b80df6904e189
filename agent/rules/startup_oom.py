"""Out of memory before or within the first steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from gpudiag.agent.analysis import oom_text
from gpudiag.agent.analysis.oom_fields import Figures
from gpudiag.agent.analysis.oom_meaning import meanings
from gpudiag.agent.analysis.oom_words import Meaning
from gpudiag.agent.rules._blame import Blame
from gpudiag.agent.rules._jobs import Job, advanced_since, job_of, jobs, rank_of
from gpudiag.agent.rules._oom_causes import blame, still_open
from gpudiag.agent.rules._oom_shares import ALLOCATED, MODEL, shares
from gpudiag.agent.rules._teams import STEPS
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Subject,
    Suggestion,
    Threshold,
    Verdict,
    subject,
)
from gpudiag.agent.window import Window
from gpudiag.probes import Event

OOMS = "gpudiag_torch_ooms_total"
SERVING = "gpudiag_serving_config_info"
SERVERS = (SERVING, "gpudiag_serving_up", "gpudiag_serving_ready")
_RANK = re.compile(r"\[(?:default)?rank ?(\d+)\]|\brank[=: ]+(\d+)", re.IGNORECASE)
_MAYBE = ("emory", "ALLOC", "seq len")
_UNLIMITED = frozenset({"", "none", "null", "0", "unlimited", "inf", "auto"})


@dataclass(frozen=True, slots=True)
class _Oom:
    """One error: of which job (or server) and rank, and what its text means."""

    time: float
    job: Job
    rank: str
    server: str
    line: str
    source: str
    figures: Figures
    meanings: tuple[Meaning, ...]

    @property
    def who(self) -> Subject:
        return subject(server=self.server) if self.server else self.job.who(self.rank or None)


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every job and server by the out-of-memory errors of its first steps."""
    known = jobs(window)
    found: dict[str, _Oom] = {}
    for oom in _ooms(window, known, limits):
        # The first rank that fails is the one to look at; its peers follow.
        found.setdefault(oom.server or oom.job.name, oom)
    for oom in found.values():
        if oom.job.name and advanced_since(window, oom.job, oom.time, limits["grace"]):
            yield Healthy(oom.who)
        elif not _gone(window, oom):
            yield _judge(window, oom, limits)
    for name, job in known.items():
        if name not in found and window.latest(STEPS, job=name):
            yield Healthy(job.who())
            yield from (Healthy(job.who(rank)) for rank in job.ranks)


def _ooms(window: Window, known: dict[str, Job], limits: Limits) -> Iterator[_Oom]:
    servers = {labels.get("server", "") for metric in SERVERS for labels in window.seen(metric)}
    for event in window.events(limits["recent"]):
        oom = _of_event(event, known, servers)
        if oom and (oom.server or _starting(window, oom.job, limits)):
            yield oom
    if not any(p.value for p in window.latest(OOMS)):
        return
    for rise in window.increase(OOMS, limits["recent"]):
        job = known.get(rise.labels.get("job", ""))
        if rise.value > 0.0 and job and _starting(window, job, limits):
            rank = rise.labels.get("rank", "")
            yield _Oom(window.now, job, rank, "", f"{rise.value:.0f}", OOMS, Figures(), ())


def _of_event(event: Event, known: dict[str, Job], servers: set[str]) -> _Oom | None:
    if event.source != "torch" and not event.source.startswith("log"):
        return None
    message = _read(event.line)
    if message is None and event.type != "oom":
        return None
    said, figures = message or ((), Figures())
    name = event.source.partition(":")[2]
    server = event.fields.get("server", name if name in servers else "")
    spoken = _RANK.search(event.line)
    rank = (spoken[1] or spoken[2]) if spoken else ""
    job = job_of(known, event, event.fields.get("pid", ""), rank) or Job(
        event.fields.get("job", "")
    )
    rank = rank_of(job, event, rank=rank)
    return _Oom(event.time, job, rank, server, event.line[:400], event.source, figures, said)


@lru_cache(maxsize=1024)
def _read(line: str) -> tuple[tuple[Meaning, ...], Figures] | None:
    """What the text means, None where it is no error of GPU memory."""
    if not any(needle in line for needle in _MAYBE):
        return None
    found = [m for m in oom_text.find(line) if m.kind != "host"]
    return (tuple(meanings(found[0])), found[0].figures) if found else None


def _starting(window: Window, job: Job, limits: Limits) -> bool:
    """Whether the job is within its first steps, or nobody counts them."""
    points = window.latest(STEPS, job=job.name)
    if points:
        return max(point.value for point in points) <= limits["first_steps"]
    return not window.seen(STEPS, job=job.name)


def _gone(window: Window, oom: _Oom) -> bool:
    """Whether what would tell the cause has ended with the process: what was said then stands."""
    if window.now - oom.time <= 10.0:
        return False
    told = any(window.seen(metric, job=oom.job.name) for metric in (MODEL, ALLOCATED))
    return told and not any(window.latest(m, job=oom.job.name) for m in (MODEL, ALLOCATED))


def _judge(window: Window, oom: _Oom, limits: Limits) -> Diagnosis:
    seen = shares(window, oom.job, oom.rank, oom.figures, oom.meanings)
    found = _unbounded(window, oom) or blame(seen, limits)
    missing: tuple[str, ...] = ()
    if found is None:
        words, missing = still_open(seen)
        found = Blame(UNDETERMINED, 0.5, words)
    who = f"Server {oom.server}" if oom.server else f"Rank {oom.rank or '?'} of {oom.job.name}"
    if not (oom.server or oom.job.name):
        who = "A process"
    rivals = tuple(
        Rival(one.cause, one.why)
        for one in oom.meanings
        if one.cause not in (found.cause, UNDETERMINED)
    )
    return Diagnosis(
        oom.who,
        found.cause,
        found.sure,
        f"{who} ran out of GPU memory as it started: {found.words}.",
        (Evidence(oom.source, oom.line), *found.evidence),
        rivals=rivals,
        missing=missing,
        actions=_ACTIONS,
        since=oom.time,
    )


def _unbounded(window: Window, oom: _Oom) -> Blame | None:
    """A server to which nobody said how long requests or how large its cache may become."""
    config = next((p.labels for p in window.latest(SERVING, server=oom.server)), None)
    if not oom.server or config is None:
        return None
    if any(m.cause == "memory-held-by-others" for m in oom.meanings):
        return None
    kept = {name: config.get(name, "").lower() for name in ("kv_limit", "max_model_len")}
    if not all(value in _UNLIMITED for value in kept.values()):
        return None
    evidence = [Evidence(SERVING, "no kv_limit, no max_model_len", "", "one of them", config)]
    words = "neither the length of requests nor the size of the key-value cache is bounded"
    return Blame("kv-cache-unbounded", 0.85, words, evidence)


_ACTIONS = (
    Suggestion("observe", "Compare the shares of memory in the finding with the budget's."),
    Suggestion("notify", "Tell the job's owner the cause; its section of the page has the remedy."),
    Suggestion("degrade", "Halve the micro-batch or turn recomputation on, and start again."),
)

RULE = Rule(
    check=check,
    reads=frozenset({OOMS, STEPS}),
    events=frozenset({"torch", "log"}),
    clear=120.0,
    thresholds={
        "recent": Threshold(900.0, "seconds", "how long an error speaks of the present"),
        "first_steps": Threshold(
            20.0, "steps", "the optimizer's state and the longest batches come within these"
        ),
        "grace": Threshold(30.0, "seconds", "steps already under way may still be counted"),
        "idle": Threshold(0.1, "ratio", "of what is reserved: less idle is everyday"),
        "activations": Threshold(2.0, "ratio", "of the budget's: recomputation saves more"),
    },
)
