"""Training stopped, hung or lost a rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from gpudiag.agent.rules import _collectives, _interruption, _network_signs, _resumes, _xids
from gpudiag.agent.rules._collectives import Hang
from gpudiag.agent.rules._ends import End, end_of
from gpudiag.agent.rules._interruption import Case, Why
from gpudiag.agent.rules._jobs import (
    SEQUENCE,
    Job,
    advanced_since,
    has_stepped,
    job_of,
    jobs,
    last_advance,
    rank_of,
    step_seconds,
)
from gpudiag.agent.rules._teams import CHECKPOINT, STEP, STEPS
from gpudiag.agent.rules._train_words import Said, said
from gpudiag.agent.rules.contract import (
    UNDETERMINED,
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rule,
    Suggestion,
    Threshold,
    Unknown,
    Verdict,
)
from gpudiag.agent.window import Series, Window
from gpudiag.probes import Event

_WATCHED = frozenset({"step_timeout", "hang_dump"})


@dataclass(slots=True)
class _Told:
    """What events said of one job, oldest first."""

    job: Job
    ends: list[End] = field(default_factory=list)
    lines: list[tuple[Event, Said]] = field(default_factory=list)
    stacks: list[tuple[Event, str]] = field(default_factory=list)


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every job by how its processes ended, what their logs say and whether it steps."""
    for told in _gather(window, limits).values():
        job = told.job
        case = _case(window, limits, told)
        if case is not None:
            found = _interruption.why(case)
            yield _diagnosis(case, found)
            if job.name:
                yield from _others(job, found.rank)
        elif resumed := _resumes.lost(window, job, told.ends, told.lines, limits):
            yield _not_resumed(job, resumed)
            yield from _others(job, None)
        elif window.latest(STEPS, job=job.name):
            yield Healthy(job.who())
            yield from _others(job, None)
        elif _silent(window, told):
            yield Unknown(job.who(), ("how its processes ended: exit codes, their logs",))


def _gather(window: Window, limits: Limits) -> dict[str, _Told]:
    known = jobs(window)
    found = {name: _Told(job) for name, job in known.items()}

    def of(job: Job) -> _Told:
        return found.get(job.name) or found.setdefault(job.name, _Told(job))

    for event in window.events(limits["remember"]):
        words = said(event.line) if event.source.startswith("log") else None
        if words is None and event.source not in ("process", "torch"):
            continue
        ended = end_of(known, event)
        if ended:
            of(ended.job).ends.append(ended)
        job = job_of(known, event, rank=words.rank if words else "")
        if words and (job or not known):
            job = job or Job("")
            rank = rank_of(job, event, rank=words.rank)
            of(job).lines.append((event, words._replace(rank=rank)))
        elif job and event.type in _WATCHED:
            of(job).stacks.append((event, rank_of(job, event)))
    return found


def _case(window: Window, limits: Limits, told: _Told) -> Case | None:
    """The interruption that lasts, None where there is none or the job has got on since."""
    failed = [e for e in told.ends if not e.clean and not e.cancelled]
    failed.sort(key=lambda end: end.time)
    waited = [event for event, words in told.lines if words.kind == "timeout"]
    waited += [event for event, _ in told.stacks if event.type == "step_timeout"]
    times = [end.time for end in failed] + [event.time for event in waited]
    hang = _stuck(window, limits, told)
    if hang is None and told.stacks and waited:
        hang = _collectives.by_stacks(told.stacks)
    if not times and hang is None:
        return None
    if times and hang is None and _recovered(window, limits, told, max(times)):
        return None
    if not failed and has_stepped(window, told.job) is False:
        # A first collective that hangs is a start that never came to be.
        return None
    began = min([*times, *([hang.since] if hang else [])])
    began = max(began, _last_good(window, told, began))
    before = limits["before"] if failed else limits["before_timeout"]
    start = min(began, hang.since if hang else began) - before
    recent = [end for end in failed if end.time >= start]
    lines = [one for one in told.lines if one[0].time >= start]
    return Case(window, limits, told.job, start, began, recent, lines, hang)


def _recovered(window: Window, limits: Limits, told: _Told, time: float) -> bool:
    if any(end.clean and end.time > time for end in told.ends):
        return True
    return advanced_since(window, told.job, time, limits["grace"])


def _last_good(window: Window, told: _Told, began: float) -> float:
    """Older failures that the job has got over are not this interruption's beginning."""
    times = sorted(
        [e.time for e in told.ends if not e.clean and not e.cancelled]
        + [event.time for event, words in told.lines if words.kind == "timeout"]
    )
    for earlier, later in pairwise(times):
        if later - earlier > 600.0 and _stepped_between(window, told.job, earlier + 60.0, later):
            began = later
    return began


def _stepped_between(window: Window, job: Job, since: float, until: float) -> bool:
    for series in window.series(STEPS, window.now - since, job=job.name):
        inside = series.values[series.times <= until]
        if len(inside) > 1 and inside[-1] > inside[0]:
            return True
    return False


def _stuck(window: Window, limits: Limits, told: _Told) -> Hang | None:
    """A job that still reports and does not step any more, for much longer than a step takes."""
    job = told.job
    first = window.latest(STEPS, job=job.name)[:1]
    if not first or not first[0].value:
        return None
    short = window.series(STEPS, limits["still"], **first[0].labels)
    if not short or len(short[0].values) < 2 or short[0].values[-1] > short[0].values[0]:
        return None
    since = _still_since(window, job, limits)
    idle = window.now - since
    if idle < _patience(window, job, limits):
        return None
    hang = _collectives.by_sequence(window, job, limits["remember"])
    patient = limits["saving"] if hang and hang.rank == "0" else limits["still"]
    if hang and window.now - hang.since >= max(patient, 2.0 * _spacing(short[0])):
        return hang
    dumped = _collectives.by_stacks(told.stacks)
    if dumped or idle < limits["unexplained"] or _moving(window, job, idle):
        return dumped
    words = f"no step for {idle / 60.0:.0f} min, and what it waits for is not measured"
    evidence = (Evidence(STEPS, first[0].value, "steps", "rising", first[0].labels),)
    missing = ("gpudiag_train_collective_sequence of all ranks", "a stack of every rank")
    return Hang(since, words, 0.5, "", False, evidence, missing)


def _still_since(window: Window, job: Job, limits: Limits) -> float:
    spans = window.series(STEPS, limits["remember"], job=job.name)
    return max(last_advance(s) for s in spans if len(s.times))


def _patience(window: Window, job: Job, limits: Limits) -> float:
    """How long no step is nothing: many steps' time, or a few checkpoints'."""
    saves = window.series(CHECKPOINT, limits["remember"], job=job.name)
    longest = max((float(s.values.max()) for s in saves if len(s.values)), default=0.0)
    step = step_seconds(window, job, limits["remember"])
    return max(limits["still"], limits["steps"] * step, 3.0 * longest)


def _moving(window: Window, job: Job, idle: float) -> bool:
    """Whether collectives go on though steps do not: an evaluation, say."""
    spans = window.series(SEQUENCE, idle / 2.0, job=job.name)
    return any(len(s.values) > 1 and s.values[-1] > s.values[0] for s in spans)


def _spacing(series: Series) -> float:
    return float(series.times[-1] - series.times[-2])


def _silent(window: Window, told: _Told) -> bool:
    """Whether it stepped once, reports no more, and nobody said how it ended."""
    return not told.ends and bool(window.seen(STEPS, job=told.job.name))


def _others(job: Job, rank: str | None) -> Iterator[Healthy]:
    """All that is not the rank (or the job, "") under which the interruption stands."""
    if rank:
        yield Healthy(job.who())
    yield from (Healthy(job.who(other)) for other in job.ranks if other != rank)


def _diagnosis(case: Case, found: Why) -> Diagnosis:
    name = case.job.name or "the job"
    return Diagnosis(
        case.job.who(found.rank or None),
        found.cause,
        found.confidence,
        f"Training of {name} was interrupted: {found.words}.",
        tuple(found.evidence),
        rivals=tuple(found.rivals),
        missing=found.missing,
        actions=_ACTIONS.get(found.cause, _ACTIONS[UNDETERMINED]),
        severity="info" if _perhaps_meant(case, found) else None,
        since=case.began,
    )


def _perhaps_meant(case: Case, found: Why) -> bool:
    """A bare SIGKILL in a job that nothing else is known of: as likely somebody ended it."""
    killed = {end.code for end in case.ends} == {_SIGKILL}
    return found.cause == "process-crash" and killed and not case.job.name


def _not_resumed(job: Job, found: _resumes.Lost) -> Diagnosis:
    return Diagnosis(
        job.who(),
        "resume-not-effective",
        found.confidence,
        f"{job.name or 'The job'} restarted and lost work: {found.words}.",
        tuple(found.evidence),
        missing=() if found.saved is not None else ("checkpoint_saved events or log lines",),
        actions=_ACTIONS["resume-not-effective"],
        since=found.fall.time,
    )


_SIGKILL = -9
_LOOK = Suggestion("observe", "Read the last lines of the rank named here before anybody else's.")
_AGAIN = Suggestion("restart", "Restart from the newest checkpoint that is known to load.")
_ACTIONS: Mapping[str, tuple[Suggestion, ...]] = {
    "hardware-fault": (
        Suggestion("drain", "Take the GPU out before the restart, or it will stop it again."),
        _AGAIN,
    ),
    "network-unstable": (
        Suggestion("notify", "Have the link's cable, transceiver and switch port looked at."),
        Suggestion("drain", "Keep the node out of multi-node jobs until the link holds."),
        _AGAIN,
    ),
    "hung-collective": (
        Suggestion("observe", "`py-spy dump --pid PID` on the rank named, and on a peer."),
        _AGAIN,
    ),
    "host-out-of-memory": (
        Suggestion("degrade", "Fewer loader workers or less prefetch; or more memory."),
        _AGAIN,
    ),
    "process-crash": (_LOOK, _AGAIN),
    "resume-not-effective": (
        Suggestion("notify", "Stop the run now: every step is one that was done before."),
        Suggestion("restart", "Restart with the checkpoint's path given and checked."),
    ),
    UNDETERMINED: (_LOOK,),
}

RULE = Rule(
    check=check,
    reads=frozenset({STEPS, STEP, CHECKPOINT})
    | _collectives.READS
    | _interruption.READS
    | _network_signs.READS
    | _resumes.READS
    | _xids.READS,
    trends=_resumes.TRENDS,
    events=frozenset({"process", "torch", "log", "kmsg"}),
    thresholds={
        "remember": Threshold(7200.0, "seconds", "the raw history; a stop is noticed by then"),
        "grace": Threshold(30.0, "seconds", "steps already under way may still be counted"),
        "before": Threshold(300.0, "seconds", "a fault shows in the application within minutes"),
        "before_timeout": Threshold(
            2100.0, "seconds", "a collective waits up to 30 min before anybody complains"
        ),
        "after": Threshold(60.0, "seconds", "kernel, log and exit are noticed at different times"),
        "echo": Threshold(5.0, "seconds", "a rank that complains of its peers ends soon after"),
        "still": Threshold(120.0, "seconds", "an outstanding collective that long is no jitter"),
        "saving": Threshold(300.0, "seconds", "rank 0 alone saves and evaluates, its peers wait"),
        "steps": Threshold(20.0, "steps", "without one: pauses of a few steps are everyday"),
        "unexplained": Threshold(
            900.0, "seconds", "evaluations and first saves take minutes where nothing is measured"
        ),
        "memory_left": Threshold(0.03, "ratio", "of memory left where a kill is likely for it"),
        "resume_back": Threshold(7200.0, "seconds", "how far the counter's peak is looked for"),
        "resume_slack": Threshold(0.01, "ratio", "of the peak: a step or two of counting"),
        "resume_zero": Threshold(0.05, "ratio", "of the peak: as good as the beginning"),
    },
)
