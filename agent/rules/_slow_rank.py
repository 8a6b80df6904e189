"""Why one rank is slower than its peers: what its GPU, its links, its host and its loader say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpudiag.agent.rules._gpus import INFO, title
from gpudiag.agent.rules._teams import DATA, GC, Team, excess, typical
from gpudiag.agent.rules._teams import INFO as TRAIN_INFO
from gpudiag.agent.rules._throttle import ACTIVE, CLOCK, SECONDS, Share, shares
from gpudiag.agent.rules.contract import Evidence, Rival
from gpudiag.agent.window import Window

GENERATION = "gpudiag_gpu_pcie_link_generation"
WIDTH = "gpudiag_gpu_pcie_link_width"
LINK_UP = "gpudiag_gpu_nvlink_up"
LINK_ERRORS = "gpudiag_gpu_nvlink_errors_total"
SWITCHES = "gpudiag_process_context_switches_total"
DEPTH = "gpudiag_train_loader_queue_depth"
READS = frozenset({ACTIVE, SECONDS, CLOCK, GENERATION, WIDTH, LINK_ERRORS, SWITCHES, DEPTH})

THROTTLES = ("hw_thermal", "sw_thermal", "power_brake", "hw_slowdown", "power_cap")
RECENT = 90.0

# The symptom is there already: these ask less of their evidence than the rules on hardware do.
HALF = 0.5
SLOWER_CLOCK = 0.95
MUCH_SLOWER_CLOCK = 0.9
THROTTLED = 0.1
PREEMPTED = 500.0
TIMES_PEERS = 3.0
LINK_ERRORS_MIN = 10.0


@dataclass(slots=True)
class Why:
    """The cause, in words that go on after `because`, with its evidence, rivals and what lacks."""

    cause: str = "slow-worker"
    words: str = ""
    evidence: list[Evidence] = field(default_factory=list)
    rivals: list[Rival] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Case:
    """The slow rank and what it is compared with."""

    window: Window
    team: Team
    rank: str
    excess: float

    @property
    def uuid(self) -> str:
        return self.team.uuids.get(self.rank, "")

    @property
    def peers(self) -> list[str]:
        return [u for rank, u in self.team.uuids.items() if rank != self.rank and u != self.uuid]


def why(window: Window, team: Team, rank: str, seconds: float) -> Why:
    """The first cause that its evidence bears out; the others become rivals with why they lost."""
    case = _Case(window, team, rank, seconds)
    found = Why()
    if not case.uuid and window.seen(INFO):
        found.missing.append(f"{TRAIN_INFO}{{uuid}}: which GPU the rank is on")
    for cause, examine in _EXAMINED if case.uuid else _WITHOUT_GPU:
        words, evidence, against = examine(case)
        if words and not found.words:
            found.cause, found.words = cause, words
            found.evidence += evidence
        elif words:
            found.rivals.append(Rival(cause, f"{words}, yet {found.words} explains more"))
        elif against.startswith("not measured: "):
            found.missing.append(against.removeprefix("not measured: "))
        else:
            found.rivals.append(Rival(cause, against))
    if found.words:
        found.missing.clear()
    return found


_Answer = tuple[str, list[Evidence], str]


def _starved(case: _Case) -> _Answer:
    if not case.team.known(DATA):
        return "", [], f"not measured: {DATA}"
    waits = case.team.times[DATA]
    at = case.team.ranks.index(case.rank)
    more = float(typical(excess(waits))[at])
    if more < HALF * case.excess:
        return "", [], f"it waits {max(more, 0.0) * 1e3:.0f} ms longer for data than its peers"
    own = float(typical(waits)[at])
    labels = {"job": case.team.job, "rank": case.rank}
    evidence = [Evidence(DATA, round(own, 4), "seconds", "as its peers", labels)]
    depth = case.window.value(DEPTH, job=case.team.job, rank=case.rank)
    if depth is not None:
        evidence.append(Evidence(DEPTH, depth, "batches", "above 0", labels))
    return f"it waits {own * 1e3:.0f} ms a step for its loader", evidence, ""


def _throttled(case: _Case) -> _Answer:
    own, others = _clock(case, case.uuid), [_clock(case, peer) for peer in case.peers]
    known = [clock for clock in others if clock is not None]
    share, peers_share = _share(case)
    ratio = own / float(np.median(known)) if own is not None and known else None
    slower = ratio is not None and ratio <= SLOWER_CLOCK
    flagged = share is not None and share.ratio >= THROTTLED
    alone = share is not None and share.ratio >= 0.3 and peers_share < HALF * share.ratio
    if not ((slower and (flagged or (ratio or 1.0) <= MUCH_SLOWER_CLOCK)) or alone):
        if ratio is None and share is None:
            return "", [], f"not measured: {CLOCK} or {ACTIVE} of its GPU and of its peers'"
        return "", [], "its GPU's clock is that of its peers" if ratio else "nothing throttles it"
    evidence = []
    words = f"{title({'uuid': case.uuid})} is slowed down"
    if share is not None and share.ratio >= THROTTLED:
        of = {"uuid": case.uuid, "reason": share.reason}
        evidence.append(Evidence(ACTIVE, round(share.ratio, 3), "ratio", "as its peers", of))
        words += f" ({share.reason}, {share.ratio:.0%} of the time)"
    if own is not None and known:
        expected = f"{float(np.median(known)) / 1e9:.2f} GHz, as its peers"
        of = {"uuid": case.uuid, "clock": "sm"}
        evidence.append(Evidence(CLOCK, own, "hertz", expected, of))
        words += f" at {own / 1e9:.2f} GHz"
    return words, evidence, ""


def _pcie(case: _Case) -> _Answer:
    told = False
    for metric, name in ((GENERATION, "Gen"), (WIDTH, "x")):
        own = _typical(case, metric, uuid=case.uuid)
        most = case.window.value(f"{metric}_max", uuid=case.uuid)
        if own is None or most is None:
            continue
        told = True
        peers = [_typical(case, metric, uuid=peer) for peer in case.peers]
        if own < most and not (peers and all(peer is not None and peer <= own for peer in peers)):
            of = {"uuid": case.uuid}
            evidence = [Evidence(metric, own, expected=f"{most:.0f} under load", labels=of)]
            return f"its PCIe link runs at {name}{own:.0f} of {name}{most:.0f}", evidence, ""
    return "", [], "its PCIe link is at its full speed" if told else f"not measured: {GENERATION}"


def _nvlink(case: _Case) -> _Answer:
    ups = case.window.latest(LINK_UP, uuid=case.uuid) if case.uuid else []
    own_down = {p.labels.get("link", "") for p in ups if not p.value}
    everywhere = {
        point.labels.get("link", "")
        for peer in case.peers
        for point in case.window.latest(LINK_UP, uuid=peer)
        if not point.value
    }
    if down := own_down - everywhere:
        of = {"uuid": case.uuid, "link": min(down)}
        return f"{len(down)} of its NVLinks are down", [Evidence(LINK_UP, 0.0, "", "1", of)], ""
    rises = {u: _errors(case, u) for u in {case.uuid, *case.peers} if u}
    own = rises.pop(case.uuid, 0.0)
    if own >= LINK_ERRORS_MIN and own >= TIMES_PEERS * max(rises.values(), default=0.0):
        evidence = [Evidence(LINK_ERRORS, own, "in 5 min", "as its peers", {"uuid": case.uuid})]
        return f"its NVLinks made {own:.0f} errors in 5 min", evidence, ""
    if not ups and any(case.window.latest(LINK_UP, uuid=peer) for peer in case.peers):
        return "", [], f"not measured: {LINK_UP}"
    return "", [], "its NVLinks are up" if ups else "no NVLink is seen"


def _contended(case: _Case) -> _Answer:
    team, at = case.team, case.team.ranks.index(case.rank)
    rates = [_switch_rate(case, rank) for rank in team.ranks]
    own, known = rates[at], [r for n, r in enumerate(rates) if n != at and r is not None]
    labels = {"job": team.job, "rank": case.rank}
    if own is not None and own >= max([PREEMPTED, *(TIMES_PEERS * r for r in known)]):
        evidence = [Evidence(SWITCHES, round(own), "per second", f"< {PREEMPTED:g}", labels)]
        return f"its processes are pushed off their CPU {own:.0f} times a second", evidence, ""
    pauses = [_typical(case, GC, job=team.job, rank=rank) or 0.0 for rank in team.ranks]
    rest = max((p for n, p in enumerate(pauses) if n != at), default=0.0)
    if pauses[at] - rest >= HALF * case.excess:
        evidence = [Evidence(GC, round(pauses[at], 4), "seconds", "as its peers", labels)]
        return f"Python's garbage collector stops it for {pauses[at] * 1e3:.0f} ms", evidence, ""
    if own is None:
        return "", [], f"not measured: {SWITCHES} of its process"
    return "", [], f"it is pushed off its CPU {own:.0f} times a second only"


_WITHOUT_GPU = (("data-starvation", _starved), ("host-contention", _contended))
_EXAMINED = (
    ("data-starvation", _starved),
    ("gpu-throttled", _throttled),
    ("pcie-degraded", _pcie),
    ("nvlink-degraded", _nvlink),
    ("host-contention", _contended),
)


def _clock(case: _Case, uuid: str) -> float | None:
    return _typical(case, CLOCK, uuid=uuid, clock="sm") if uuid else None


def _typical(case: _Case, metric: str, **match: str) -> float | None:
    """The median of the last minute and a half; of metrics without history their last value."""
    if not all(match.values()):
        return None
    values = [s.values for s in case.window.series(metric, RECENT, **match) if len(s.values)]
    return float(np.median(np.concatenate(values))) if values else None


def _share(case: _Case) -> tuple[Share | None, float]:
    """How much the GPU is throttled, and the most that any peer's is."""
    if not case.uuid:
        return None, 0.0
    found: dict[str, Share] = {}
    for share in shares(case.window, THROTTLES, RECENT, RECENT / 2.0):
        uuid = share.labels.get("uuid", "")
        if uuid not in found or share.ratio > found[uuid].ratio:
            found[uuid] = share
    peers = [found[uuid].ratio for uuid in case.peers if uuid in found]
    return found.get(case.uuid), max(peers, default=0.0)


def _errors(case: _Case, uuid: str) -> float:
    return sum(point.value for point in case.window.increase(LINK_ERRORS, 300.0, uuid=uuid))


def _switch_rate(case: _Case, rank: str) -> float | None:
    match: Mapping[str, str] = {"job": case.team.job, "rank": rank, "kind": "involuntary"}
    spans = case.window.series(SWITCHES, RECENT, **match)
    rates: Sequence[float] = [
        float((s.values[-1] - s.values[0]) / (s.times[-1] - s.times[0]))
        for s in spans
        if len(s.times) > 1
    ]
    return sum(rates) if rates else None
