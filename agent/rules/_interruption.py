"""Why training stopped: the fault, the kill, the network, the hang or the crash that came first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpudiag.agent.rules._collectives import Hang, by_words
from gpudiag.agent.rules._ends import End
from gpudiag.agent.rules._gpus import title
from gpudiag.agent.rules._jobs import Job
from gpudiag.agent.rules._lines import kernel_facts
from gpudiag.agent.rules._network_signs import network_signs
from gpudiag.agent.rules._train_words import Said
from gpudiag.agent.rules._xid_ruling import ruling
from gpudiag.agent.rules._xids import read as read_xids
from gpudiag.agent.rules.contract import UNDETERMINED, Evidence, Limits, Rival
from gpudiag.agent.window import Window
from gpudiag.probes import Event

ECC = "gpudiag_gpu_ecc_errors_total"
LOST = "gpudiag_gpu_lost"
KILLS = "gpudiag_cgroup_oom_kills_total"
AVAILABLE = "gpudiag_host_memory_available_bytes"
TOTAL = "gpudiag_host_memory_total_bytes"
GROUP = "gpudiag_cgroup_memory_bytes"
GROUP_LIMIT = "gpudiag_cgroup_memory_limit_bytes"
READS = frozenset({ECC, KILLS, AVAILABLE, GROUP})

_OOM_NEEDLES = ("oom-kill:", "Out of memory", "out of memory", "Killed process")
_RESETS = ("reset_gpu", "reboot_node", "reset_bus")
_FAULTS = ("hardware", "firmware", "link")
# The exceptions that torch raises where a peer or the network failed speak of somebody else.
_ECHOES = ("closed", "timeout", "network", "join")


@dataclass(slots=True)
class Case:
    """One interruption of one job: what was told since `start`, and when it `began`."""

    window: Window
    limits: Limits
    job: Job
    start: float
    began: float
    ends: list[End] = field(default_factory=list)
    lines: list[tuple[Event, Said]] = field(default_factory=list)
    hang: Hang | None = None

    def of_kind(self, *kinds: str) -> list[tuple[Event, Said]]:
        return [told for told in self.lines if told[1].kind in kinds]

    @property
    def back(self) -> float:
        """How far to look for what came before, seconds from now."""
        return self.window.now - self.start


@dataclass(slots=True)
class Why:
    """The cause, with words that complete `Training ... stopped: `."""

    cause: str
    confidence: float
    words: str
    rank: str = ""
    evidence: list[Evidence] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)
    missing: tuple[str, ...] = ()


def why(case: Case) -> Why:
    """The first cause in the order of what explains what; the others become rivals."""
    rivals: list[Rival] = []
    for cause, examine, against in (
        ("hardware-fault", _hardware, "no GPU of the job reported a fault before it stopped"),
        ("host-out-of-memory", _host_memory, "nothing was killed for memory"),
        ("process-crash", _crash, "no process ended by itself before the others"),
        ("network-unstable", _network, "no link went down and no port made errors"),
        ("hung-collective", _hung, "no collective was seen to wait"),
    ):
        found = examine(case)
        if found:
            found.rivals = [*rivals, *found.rivals]
            return found
        rivals.append(Rival(cause, against))
    return Why(
        UNDETERMINED,
        0.5,
        "why cannot be told from what was recorded",
        evidence=[Evidence(e.source, e.line) for e, _ in case.lines[-3:]],
        rivals=rivals,
        missing=("how each process ended", "the logs of all ranks", "gpudiag_ib_port_up"),
    )


def _hardware(case: Case) -> Why | None:
    uuids = case.job.uuids
    log = read_xids(case.window, case.back)
    for where, sightings in log.seen.items():
        uuid = dict(where).get("uuid", "")
        if uuids and uuid and uuid not in uuids.values():
            continue
        for one in sightings:
            told = ruling(one)
            heavy = told.action in _RESETS or (told.fault in _FAULTS and told.severity != "info")
            if one.time > case.began + case.limits["after"] or not (told.known and heavy):
                continue
            evidence = Evidence("kmsg" if one.line else "gpudiag_gpu_xid_errors_total", one.line)
            words = f"{title({'uuid': uuid})} reported XID {one.code} ({told.meaning.lower()})"
            return Why("hardware-fault", 0.93, words, _rank_with(case.job, uuid), [evidence])
    return _fallen(case) or _uncorrected(case)


def _fallen(case: Case) -> Why | None:
    facts = kernel_facts(case.window, case.back, ("fallen_off_bus",), ("fallen off",))
    if facts:
        evidence = [Evidence("kmsg", facts[0][0].line)]
        return Why("hardware-fault", 0.9, "a GPU has fallen off the bus", evidence=evidence)
    for point in case.window.latest(LOST):
        uuid = point.labels.get("uuid", "")
        if point.value and uuid in (case.job.uuids or {"": uuid}).values():
            evidence = [Evidence(LOST, 1.0, "", "0", point.labels)]
            words = f"{title(point.labels)} answers no more"
            return Why("hardware-fault", 0.85, words, _rank_with(case.job, uuid), evidence)
    return None


def _uncorrected(case: Case) -> Why | None:
    uuids = case.job.uuids.values()
    for rise in case.window.increase(ECC, case.back, kind="uncorrected"):
        uuid = rise.labels.get("uuid", "")
        if rise.value > 0.0 and (not uuids or uuid in uuids):
            evidence = [Evidence(ECC, rise.value, "errors", "0", rise.labels)]
            words = f"{title(rise.labels)} had memory errors that ECC could not correct"
            return Why("hardware-fault", 0.85, words, _rank_with(case.job, uuid), evidence)
    return None


def _rank_with(job: Job, uuid: str) -> str:
    return next((rank for rank, of in job.uuids.items() if uuid and of == uuid), "")


def _host_memory(case: Case) -> Why | None:
    killed = [e for e in case.ends if e.code == -9 or e.reason == "oom-kill"]
    pids = {e.pid for e in case.ends} | {of.get("pid", "") for of in case.job.ranks.values()}
    loader = any("killed by signal: Killed" in said.text for _, said in case.lines)
    for event, fact in kernel_facts(case.window, case.back, ("oom_kill",), _OOM_NEEDLES):
        ours = str(fact.pid) in pids
        if ours or killed or loader:
            end = next((e for e in case.ends if e.pid == str(fact.pid)), None)
            rank = end.rank if end else _by_pid(case.job, str(fact.pid)) or _first_rank(killed)
            words = f"the kernel killed {fact.name or 'a process'} (pid {fact.pid}) for memory"
            evidence = [Evidence("kmsg", event.line), *_told(killed)]
            return Why("host-out-of-memory", 0.95 if ours else 0.85, words, rank, evidence)
    rises = [p for p in case.window.increase(KILLS, case.back) if p.value > 0.0]
    if rises and (killed or loader):
        evidence = [Evidence(KILLS, rises[0].value, "kills", "0", rises[0].labels), *_told(killed)]
        words = "its control group's memory limit was reached and a process was killed for it"
        return Why("host-out-of-memory", 0.92, words, _first_rank(killed), evidence)
    if any(e.reason == "oom-kill" for e in killed):
        words = "the kernel killed a process for memory"
        return Why("host-out-of-memory", 0.9, words, _first_rank(killed), list(_told(killed)))
    return _short_of_memory(case, killed)


def _short_of_memory(case: Case, killed: Sequence[End]) -> Why | None:
    """A SIGKILL while next to nothing was left: likely, though nobody told of a kill."""
    if not killed:
        return None
    low = case.limits["memory_left"]
    for metric, whole, least in ((AVAILABLE, TOTAL, True), (GROUP, GROUP_LIMIT, False)):
        for series in case.window.series(metric, case.back):
            labels = {k: v for k, v in series.labels.items() if k in ("node", "cgroup")}
            size = case.window.value(whole, **labels)
            if not size or not len(series.values):
                continue
            left = min(series.values) if least else size - max(series.values)
            if left <= low * size:
                evidence = [Evidence(metric, float(left), "bytes left", f"> {low:.0%}", labels)]
                return Why(
                    "host-out-of-memory",
                    0.65,
                    "a process was killed while host memory was used up",
                    _first_rank(killed),
                    [*evidence, *_told(killed)],
                    missing=("the kernel's log or gpudiag_cgroup_oom_kills_total",),
                )
    return None


def _by_pid(job: Job, pid: str) -> str:
    return next((rank for rank, of in job.ranks.items() if of.get("pid") == pid), "")


def _first_rank(found: Sequence[End]) -> str:
    return found[0].rank if found else ""


def _told(found: Sequence[End]) -> Iterator[Evidence]:
    for end in found[:3]:
        yield Evidence(end.source, end.line)


def first_failing(case: Case) -> End | None:
    """The end that is nobody's echo: not of a rank that first complained of its peers."""
    complaints = case.of_kind(*_ECHOES)
    timeouts = [event.time for event, _ in case.of_kind("timeout")]
    for end in case.ends:
        after = any(time <= end.time for time in timeouts)
        own = [e for e, said in complaints if said.rank and said.rank == end.rank]
        echoed = any(event.time <= end.time + case.limits["echo"] for event in own)
        if not after and not echoed:
            return end
    return None


def _crash(case: Case) -> Why | None:
    end = first_failing(case)
    if end is None:
        return _raised(case)
    who = f"rank {end.rank}" if end.rank else f"process {end.pid}"
    told = [
        (event, said)
        for event, said in case.of_kind("error", "oom", "data")
        if (not said.rank or not end.rank or said.rank == end.rank)
        and abs(event.time - end.time) <= case.limits["after"]
    ]
    evidence = [Evidence(end.source, end.line), *(Evidence(e.source, e.line) for e, _ in told[-2:])]
    words = f"{who} ended first ({end.words})"
    if told:
        words += f": {told[-1][1].text[:160]}"
    missing = () if end.code is not None or told else (f"the exit code or last lines of {who}",)
    if end.code == -9:
        missing = ("who sent SIGKILL: the kernel's log tells an out-of-memory kill",)
    sure = 0.6 if missing else 0.9
    if end.code == -7:
        words += "; a bus error in a loader is most often a full /dev/shm"
    return Why("process-crash", sure, words, end.rank, evidence, missing=missing)


def _raised(case: Case) -> Why | None:
    """A rank whose log has an error of its own, where only its peers are seen to have ended."""
    complaining = {said.rank for _, said in case.of_kind(*_ECHOES)}
    for event, said in case.of_kind("error", "oom", "data"):
        if case.ends and said.rank and said.rank not in complaining:
            words = f"rank {said.rank} failed first: {said.text[:160]}"
            evidence = [Evidence(event.source, event.line)]
            missing = (f"the exit of rank {said.rank}",)
            return Why("process-crash", 0.75, words, said.rank, evidence, missing=missing)
    return None


def _network(case: Case) -> Why | None:
    signs = network_signs(case.window, case.back)
    told = case.of_kind("network")
    if not signs and not told:
        return None
    waiting = case.of_kind("timeout", "closed") or case.ends or case.hang
    if not waiting:
        return None
    evidence = [sign.evidence for sign in signs] + [Evidence(e.source, e.line) for e, _ in told[:2]]
    evidence += [Evidence(e.source, e.line) for e, _ in case.of_kind("timeout", "closed")[:2]]
    words = signs[0].words if signs else f"the network failed: {told[0][1].text[:120]}"
    sure = 0.92 if any(s.hard for s in signs) else 0.85 if told else 0.7
    return Why("network-unstable", sure, words, "", evidence)


def _hung(case: Case) -> Why | None:
    hang = case.hang
    timeouts = case.of_kind("timeout")
    if hang is None and timeouts:
        hang = by_words(case.job, timeouts)
    if hang is None:
        return None
    return Why(
        "hung-collective" if hang.certain else UNDETERMINED,
        hang.confidence,
        hang.words,
        hang.rank,
        [*hang.evidence, *(Evidence(e.source, e.line) for e, _ in timeouts[:3])],
        missing=hang.missing,
    )
