"""What GPUs, links, hosts and network say of slow steps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpudiag.agent.rules._blame import Blame
from gpudiag.agent.rules._gpus import title
from gpudiag.agent.rules._network_signs import READS as NETWORK
from gpudiag.agent.rules._network_signs import network_signs
from gpudiag.agent.rules._slow_rank import (
    GENERATION,
    LINK_ERRORS,
    LINK_UP,
    SWITCHES,
    THROTTLES,
    WIDTH,
)
from gpudiag.agent.rules._steps import Picture
from gpudiag.agent.rules._teams import GC
from gpudiag.agent.rules._throttle import ACTIVE, CLOCK, SECONDS, shares
from gpudiag.agent.rules.contract import Evidence
from gpudiag.agent.window import Window

PRESSURE = "gpudiag_host_pressure_ratio"
RETRANSMITS = "gpudiag_tcp_retransmits_total"
PCIE_TX = "gpudiag_gpu_pcie_tx_bytes_total"
NVLINK_TX = "gpudiag_gpu_nvlink_tx_bytes_total"
GROUP_WAIT = "gpudiag_train_group_wait_seconds"
READS = NETWORK | {
    ACTIVE, SECONDS, CLOCK, GENERATION, WIDTH, LINK_ERRORS, SWITCHES, PRESSURE, RETRANSMITS,
    PCIE_TX, NVLINK_TX, GROUP_WAIT,
}  # fmt: skip

SPAN = 90.0
BACK = 900.0
SLOWER_CLOCK = 0.95
MUCH_SLOWER = 0.9
THROTTLED = 0.3
SOME = 0.1
FEW_ERRORS = 10.0
FEW = 4
CROWDED = 0.2
PREEMPTED = 500.0


def uuids(window: Window, picture: Picture) -> list[str]:
    """The job's GPUs; where it does not name them, all that are seen."""
    named = list(picture.job.uuids.values())
    if named:
        return named
    return sorted({p.labels["uuid"] for p in window.latest(CLOCK) if "uuid" in p.labels})


def throttled(window: Window, picture: Picture) -> Blame | None:
    """One GPU's clock under its peers', or all of them under their own of before, and held down."""
    ours = uuids(window, picture)
    clocks = {u: _clock(window, u) for u in ours}
    flagged = {
        s.labels.get("uuid", ""): s
        for s in sorted(shares(window, THROTTLES, SPAN, SPAN / 2.0), key=lambda s: s.ratio)
    }
    told = {u: c for u, c in clocks.items() if c is not None}
    for uuid in ours:
        share = flagged.get(uuid)
        ratio = share.ratio if share else 0.0
        held = share is not None and ratio >= SOME
        peers = [c[1] for u, c in told.items() if u != uuid]
        own = told.get(uuid)
        behind = own[1] / float(np.median(peers)) if own and peers else 1.0
        fell = own is not None and own[1] <= SLOWER_CLOCK * own[0]
        others = [flagged[u].ratio for u in ours if u != uuid and u in flagged]
        alone = bool(others) and ratio >= THROTTLED and max(others) < ratio / 2.0
        below = behind <= SLOWER_CLOCK and (held or behind <= MUCH_SLOWER)
        # A power cap at full load is everyday, unless the clock fell with it.
        if below or alone or (fell and ratio >= THROTTLED):
            words = f"{title({'uuid': uuid})} is slowed down"
            evidence = []
            if share is not None and held:
                of = {"uuid": uuid, "reason": share.reason}
                words += f" ({share.reason}, {ratio:.0%} of the time)"
                evidence.append(Evidence(ACTIVE, round(ratio, 3), "ratio", "0", of))
            if own is not None:
                usual = float(np.median(peers)) if peers and below else own[0]
                words += f" at {own[1] / 1e9:.2f} GHz instead of {usual / 1e9:.2f}"
                expected = f"{usual / 1e9:.2f} GHz"
                evidence.append(Evidence(CLOCK, own[1], "hertz", expected, {"uuid": uuid}))
            return Blame("gpu-throttled", 0.9 if held and own else 0.8, words, evidence)
    return None


def _clock(window: Window, uuid: str) -> tuple[float, float] | None:
    """Its SM clock, before and now, Hz."""
    for series in window.series(CLOCK, BACK, uuid=uuid, clock="sm"):
        if len(series.values):
            recent = series.values[series.times > series.times[-1] - SPAN]
            ranked = np.sort(series.values)
            return float(ranked[int(0.8 * (len(ranked) - 1))]), float(np.median(recent))
    return None


def pcie(window: Window, picture: Picture) -> Blame | None:
    """A link below its maximum and below its peers', on a GPU that works."""
    ours = uuids(window, picture)
    for metric, name in ((GENERATION, "Gen"), (WIDTH, "x")):
        for uuid in ours:
            spans = [s.values for s in window.series(metric, SPAN, uuid=uuid) if len(s.values)]
            most = window.value(f"{metric}_max", uuid=uuid)
            if not spans or most is None:
                continue
            own = float(np.median(spans[0]))
            peers = [window.value(metric, uuid=peer) for peer in ours if peer != uuid]
            alike = bool(peers) and all(p is not None and p <= own for p in peers)
            if own < most and not alike:
                evidence = Evidence(metric, own, "", f"{most:.0f} under load", {"uuid": uuid})
                words = f"the PCIe link of {title({'uuid': uuid})} runs at {name}{own:.0f}"
                return Blame("pcie-degraded", 0.88, f"{words} of {name}{most:.0f}", [evidence])
    return None


def nvlink(window: Window, picture: Picture) -> Blame | None:
    """A lane that is down on one GPU and up on others, or errors that rise."""
    ours = uuids(window, picture)
    down = {u: {p.labels.get("link") for p in window.latest(LINK_UP, uuid=u) if not p.value}
            for u in ours}  # fmt: skip
    for uuid, links in down.items():
        others = [lanes for u, lanes in down.items() if u != uuid]
        by_design = set.intersection(*others) if others else set()
        if links - by_design:
            words = f"{len(links - by_design)} NVLinks of {title({'uuid': uuid})} are down"
            evidence = Evidence(LINK_UP, 0.0, "", "1", {"uuid": uuid})
            return Blame("nvlink-degraded", 0.9, words, [evidence])
    for uuid in ours:
        made = sum(p.value for p in window.increase(LINK_ERRORS, 300.0, uuid=uuid))
        if made >= FEW_ERRORS:
            words = f"the NVLinks of {title({'uuid': uuid})} made {made:.0f} errors in 5 min"
            evidence = Evidence(LINK_ERRORS, made, "errors", "0", {"uuid": uuid})
            return Blame("nvlink-degraded", 0.85, words, [evidence])
    return None


def contended(window: Window, picture: Picture) -> Blame | None:
    """CPU pressure or preemption now and not before, or gc pauses that line up with slow steps."""
    for series in window.series(PRESSURE, BACK, resource="cpu", kind="some"):
        if not len(series.values):
            continue
        value = float(np.median(series.values[series.times > series.times[-1] - SPAN]))
        before = series.values[series.times < picture.since()]
        lined_up = len(before) < FEW or float(np.median(before)) < 0.7 * value
        if value >= CROWDED and lined_up:
            evidence = Evidence(PRESSURE, round(value, 3), "ratio", f"< {CROWDED:g}", series.labels)
            words = f"tasks of the host wait for a CPU {value:.0%} of the time"
            return Blame("host-contention", 0.85, words, [evidence])
    for series in window.series(SWITCHES, SPAN, job=picture.job.name, kind="involuntary"):
        if len(series.times) > 1:
            rate = float(np.ptp(series.values) / np.ptp(series.times))
            if rate >= PREEMPTED:
                evidence = Evidence(SWITCHES, round(rate), "per second", "", series.labels)
                words = f"its processes are pushed off their CPUs {rate:.0f} times a second"
                return Blame("host-contention", 0.8, words, [evidence])
    return _collecting(picture)


def _collecting(picture: Picture) -> Blame | None:
    if GC not in picture.of:
        return None
    pauses = np.nan_to_num(picture.of[GC]).max(axis=1)
    line, usual = picture.line, picture.base or float(np.median(picture.line))
    over = np.clip(line - usual, 0.0, None)
    pausing = pauses > max(0.02, 0.05 * usual)
    if pausing.sum() < 2 or not over.sum():
        return None
    share = float(over[pausing].sum() / over.sum())
    # Pauses everywhere explain nothing by being there: slow bins must be longer by about as much.
    if share < 0.6 or share < pausing.mean() + 0.2 * (1.0 - pausing.mean()):
        return None
    longest = float(pauses.max())
    words = f"Python's garbage collector stops ranks for up to {longest * 1e3:.0f} ms when it runs"
    evidence = Evidence(GC, round(longest, 3), "seconds", "a few ms", {"job": picture.job.name})
    return Blame("host-contention", 0.8, words, [evidence])


def congested(window: Window, picture: Picture, grown: float) -> Blame | None:
    """Waits between nodes grew and those within one did not, or the network's counters move."""
    waits = dict(_scopes(window, picture))
    signs = network_signs(window, BACK)
    resent = _resent(window)
    evidence = [s.evidence for s in signs[:3]] + resent
    if "inter_node" in waits:
        now, before = waits["inter_node"]
        near = waits.get("intra_node", (0.0, 0.0))
        more, more_near = now - before, near[0] - near[1]
        if more >= 0.5 * grown > 0.0 and more_near < 0.3 * more:
            words = (
                f"waits between nodes grew from {before * 1e3:.0f} to {now * 1e3:.0f} ms a step,"
                " those within a node did not"
            )
            told = Evidence(GROUP_WAIT, round(now, 4), "seconds", f"{before:.3g}",
                            {"scope": "inter_node"})  # fmt: skip
            return Blame("cross-node-congestion", 0.9 if evidence else 0.75, words,
                           [told, *evidence])  # fmt: skip
        return None
    if evidence:
        words = signs[0].words if signs else "TCP segments are sent again"
        return Blame("cross-node-congestion", 0.75, f"the network is in trouble: {words}",
                       evidence)  # fmt: skip
    return None


def _resent(window: Window) -> list[Evidence]:
    for series in window.series(RETRANSMITS, BACK):
        if len(series.times) < 4:
            continue
        rates = np.diff(series.values) / np.diff(series.times)
        recent = series.times[1:] > series.times[-1] - SPAN
        if (~recent).sum() < 2:
            continue
        now, before = float(np.median(rates[recent])), float(np.median(rates[~recent]))
        if now >= 10.0 and now >= 5.0 * before:
            return [Evidence(RETRANSMITS, round(now), "per second", f"{before:.3g}")]
    return []


def _scopes(window: Window, picture: Picture) -> Iterator[tuple[str, tuple[float, float]]]:
    """Wait by scope, now and before, s: the sum over groups, the median over ranks."""
    since = picture.since()
    for scope in ("inter_node", "intra_node"):
        now: dict[str, float] = {}
        before: dict[str, float] = {}
        for series in window.series(GROUP_WAIT, BACK, job=picture.job.name, scope=scope):
            rank, late = series.labels.get("rank", ""), series.times > since
            if late.any() and not late.all():
                now[rank] = now.get(rank, 0.0) + float(np.median(series.values[late]))
                before[rank] = before.get(rank, 0.0) + float(np.median(series.values[~late]))
        if now:
            yield scope, (float(np.median([*now.values()])), float(np.median([*before.values()])))


def topology(window: Window, picture: Picture, share: float) -> Blame | None:
    """Traffic over PCIe where NVLink exists, or a tensor group that crosses nodes."""
    layout = next((of["layout"] for of in picture.job.ranks.values() if of.get("layout")), "")
    for series in window.series(GROUP_WAIT, SPAN, job=picture.job.name, scope="inter_node"):
        group = series.labels.get("group", "")
        waited = float(np.median(series.values)) if len(series.values) else 0.0
        if group.startswith("tp") and "tp=1," not in f"{layout}," and waited >= 0.1 * picture.step:
            words = f"the tensor-parallel group {group} crosses nodes"
            evidence = Evidence(GROUP_WAIT, round(waited, 4), "seconds", "within one node",
                                series.labels)  # fmt: skip
            return Blame("topology-mismatch", 0.88, words, [evidence])
    if share < 0.15:
        return None
    for uuid in uuids(window, picture):
        if not any(p.value for p in window.latest(LINK_UP, uuid=uuid)):
            continue
        lanes, bus = _rate(window, NVLINK_TX, uuid), _rate(window, PCIE_TX, uuid)
        if lanes is not None and bus is not None and bus >= 1e9 and lanes < 0.1 * bus:
            words = f"{title({'uuid': uuid})} sends {bus / 1e9:.1f} GB/s over PCIe and next to"
            evidence = Evidence(NVLINK_TX, round(lanes), "bytes/s", f"> {bus:.3g}", {"uuid": uuid})
            words += " nothing over its NVLinks"
            return Blame("topology-mismatch", 0.85, words, [evidence])
    return None


def _rate(window: Window, metric: str, uuid: str) -> float | None:
    for series in window.series(metric, SPAN, uuid=uuid):
        if len(series.times) > 1:
            return float(np.ptp(series.values) / np.ptp(series.times))
    return None
