"""What the parts of a step say of why it is slow: checkpoints, data, memory, balance, waits."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from gpudiag.agent.rules._blame import Blame
from gpudiag.agent.rules._steps import Floats, Mask, Picture, medians, middle, stages
from gpudiag.agent.rules._teams import CHECKPOINT, COMM, COMPUTE, DATA
from gpudiag.agent.rules.contract import Evidence, Limits
from gpudiag.agent.window import Window

RETRIES = "gpudiag_torch_alloc_retries_total"
RESERVED = "gpudiag_torch_reserved_bytes"
CAPACITY = "gpudiag_gpu_memory_total_bytes"
DEPTH = "gpudiag_train_loader_queue_depth"
ROOM = "gpudiag_train_loader_queue_capacity"
MICRO = "gpudiag_train_micro_batches"
READS = frozenset({RETRIES, DEPTH})
BACK = 900.0
HALF = 0.5


def share(picture: Picture, metric: str) -> Floats:
    """The part of a step that each rank spends so, now; NaN where it is not known."""
    if metric not in picture.of or picture.step <= 0.0:
        return np.full(len(picture.ranks), np.nan)
    return np.asarray(picture.now(metric) / picture.step)


def over(picture: Picture) -> Floats:
    """Seconds of each bin's step beyond the usual one."""
    line = picture.line
    usual = picture.base or float(np.median(line))
    return np.asarray(np.clip(line - usual, 0.0, None))


def checkpointing(window: Window, picture: Picture, limits: Limits) -> Blame | None:
    """Slow steps that are the checkpointing ones, all but a few."""
    saving = np.zeros(len(picture.times), dtype=np.bool_)
    if CHECKPOINT in picture.of:
        saving |= np.nan_to_num(picture.of[CHECKPOINT]).max(axis=1) > 0.0
    for event in window.events(BACK, source="torch", kind="checkpoint_saved"):
        at = int(np.searchsorted(picture.times, event.time))
        saving[max(at - 1, 0) : at + 1] = True
    if not saving.any():
        return None
    beside = saving | np.roll(saving, 1) | np.roll(saving, -1)
    beyond, line = over(picture), picture.line
    inside = picture.times > picture.times[-1] - BACK
    lost, spent = float(beyond[inside].sum()), float(line[inside].sum())
    if not lost or float(beyond[inside & beside].sum()) < 0.7 * lost:
        return None
    # Steps are weighted by the time they take: a bin of one long step is all pause.
    usual = picture.base or float(np.median(line))
    paused = float(np.mean(np.where(line[inside] > 0.0, beyond[inside] / line[inside], 0.0)))
    began = saving & ~np.roll(saving, 1)
    if began.sum() < 2 or paused < limits["pauses"]:
        return None
    longest = float(np.nan_to_num(picture.of[CHECKPOINT]).max()) if CHECKPOINT in picture.of else 0
    words = f"{began.sum()} checkpoints took {paused:.0%} of the time; between them a step takes"
    words += f" {usual * 1e3:.0f} ms as ever"
    evidence = [Evidence(CHECKPOINT, round(longest, 2), "seconds", f"{lost / spent:.0%} of all")]
    return Blame("checkpoint-stall", 0.9, words, evidence)


def starved(window: Window, picture: Picture, limits: Limits) -> Blame | None:
    """Data wait is a large share, or what grew, and the queue is empty where it is seen."""
    parts = share(picture, DATA)
    if np.isnan(parts).all():
        return None
    worst = int(np.nanargmax(parts))
    now = picture.now(DATA)
    large = float(parts[worst]) >= limits["data"]
    grew = picture.slower > 0.0 and picture.rise(DATA) >= HALF * picture.slower
    if not large and not (grew and picture.slower >= limits["slow"] * picture.base):
        return None
    depths = [p.value for p in window.latest(DEPTH, job=picture.job.name)]
    rooms = [p.value for p in window.latest(ROOM, job=picture.job.name)]
    if depths and rooms and min(depths) >= HALF * max(rooms):
        return None
    labels = {"job": picture.job.name, "rank": picture.ranks[worst]}
    evidence = [Evidence(DATA, round(float(now[worst]), 4), "seconds", "a few ms", labels)]
    if depths:
        evidence.append(Evidence(DEPTH, min(depths), "batches", "above 0"))
    words = f"rank {picture.ranks[worst]} waits {now[worst] * 1e3:.0f} ms a step for data"
    if middle(parts) >= limits["data"]:
        words = f"ranks wait {middle(now) * 1e3:.0f} ms a step for data"
    sure = 0.92 if depths and min(depths) < 1.0 else 0.85
    return Blame("data-starvation", sure, words, evidence, picture.ranks[worst])


def retrying(window: Window, picture: Picture, limits: Limits) -> Blame | None:  # noqa: ARG001
    """One rank whose allocator retries, and peers that wait longer while it does."""
    rises = {
        p.labels.get("rank", ""): p.value
        for p in window.increase(RETRIES, BACK, job=picture.job.name)
    }
    busy = [rank for rank, count in rises.items() if count >= 3.0]
    if not busy or len(busy) > max(1, len(rises) // 4) or COMM not in picture.of:
        return None
    rank = max(busy, key=lambda r: rises[r])
    if rank not in picture.ranks or len(picture.ranks) < 2:
        return None
    column = picture.ranks.index(rank)
    waits = np.delete(picture.of[COMM], column, axis=1)
    peers = medians(waits.T)
    marked = _rising(window, picture, rank)
    told = ~np.isnan(peers) & (picture.times > picture.times[-1] - BACK)
    during, apart = peers[told & marked], peers[told & ~marked]
    if len(apart) >= 3 and np.median(during) < 1.3 * np.median(apart):
        return None
    of = {"job": picture.job.name, "rank": rank}
    evidence = [Evidence(RETRIES, rises[rank], "retries in 15 min", "0, as its peers", of)]
    held, whole = window.value(RESERVED, **of), _capacity(window, picture, rank)
    near = ""
    if held and whole:
        evidence.append(Evidence(RESERVED, held, "bytes", f"of {whole:.3g}", of))
        near = f" with {held / whole:.0%} of its GPU reserved"
    words = (
        f"rank {rank} had to retry {rises[rank]:.0f} allocations{near}, and its peers wait for it"
    )
    return Blame("memory-skew-stalls-peers", 0.9 if near else 0.85, words, evidence, rank)


def _rising(window: Window, picture: Picture, rank: str) -> Mask:
    marked = np.zeros(len(picture.times), dtype=np.bool_)
    for series in window.series(RETRIES, BACK, job=picture.job.name, rank=rank):
        rose = series.times[1:][np.diff(series.values) > 0.0]
        at = np.searchsorted(picture.times, rose - 1e-6)
        marked[at[at < len(marked)]] = True
    return marked


def _capacity(window: Window, picture: Picture, rank: str) -> float | None:
    uuid = picture.job.uuids.get(rank)
    return window.value(CAPACITY, uuid=uuid) if uuid else None


def degree(picture: Picture, name: str) -> int:
    """A degree of the job's layout, 1 where it is not told."""
    layout = next((of["layout"] for of in picture.job.ranks.values() if of.get("layout")), "")
    found = re.search(rf"(?:^|,){name}=(\d+)", layout)
    return max(int(found[1]), 1) if found else 1


def unbalanced(window: Window, picture: Picture, limits: Limits) -> Blame | None:  # noqa: ARG001
    """Compute that differs between ranks, the worst one changing; or between pipeline stages."""
    if not picture.known(COMPUTE) or len(picture.ranks) < 2:
        return None
    work = picture.of[COMPUTE][picture.recent]
    work = work[~np.isnan(work).any(axis=1)]
    if len(work) < 4:
        return None
    groups = list(stages(picture, degree(picture, "pp")))
    between = _between_stages(picture, work, groups, limits)
    if between:
        return between
    spread = np.zeros(len(work))
    worst = np.zeros(len(work), dtype=int)
    for group in (g for g in groups if len(g) > 1):
        of_group = work[:, group]
        ratio = of_group.max(axis=1) / np.median(of_group, axis=1)
        if len(group) == 2:
            ratio = of_group.max(axis=1) / of_group.min(axis=1)
        larger = ratio > spread
        spread, worst = np.maximum(spread, ratio), np.where(larger, of_group.argmax(axis=1), worst)
    same = float(np.bincount(worst).max() / len(worst))
    if float(np.median(spread)) < 1.0 + limits["uneven"] or same >= limits["same"]:
        return None
    if picture.known(COMM) and _together(work, picture.of[COMM][picture.recent]) > -0.2:
        return None
    words = (
        f"the slowest rank of the moment computes {np.median(spread) - 1.0:.0%} longer than its"
        f" peers, and it is another one from time to time ({same:.0%} the same)"
    )
    evidence = [Evidence(COMPUTE, round(float(np.median(spread)), 3), "max / median", "near 1")]
    return Blame("load-imbalance", 0.85, words, evidence)


def _between_stages(
    picture: Picture, work: Floats, groups: Sequence[Sequence[int]], limits: Limits
) -> Blame | None:
    if len(groups) < 2:
        return None
    means = np.array([float(np.median(work[:, list(group)])) for group in groups])
    heavy = int(means.argmax())
    rest = float(np.median(np.delete(means, heavy)))
    if means[heavy] < (1.0 + limits["uneven"]) * rest:
        return None
    words = (
        f"pipeline stage {heavy} computes {means[heavy] * 1e3:.0f} ms where the others take"
        f" {rest * 1e3:.0f}"
    )
    evidence = [Evidence(COMPUTE, round(float(means[heavy]), 4), "seconds", f"{rest:.3g}",
                         {"rank": picture.ranks[groups[heavy][0]]})]  # fmt: skip
    return Blame("load-imbalance", 0.88, words, evidence)


def _together(one: Floats, other: Floats) -> float:
    """How the ranks' deviations of a bin go together, -1 to 1."""
    rows = min(len(one), len(other))
    a, b = one[-rows:], other[-rows:]
    a = (a - a.mean(axis=1, keepdims=True)).ravel()
    b = (b - b.mean(axis=1, keepdims=True)).ravel()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size > 0.0 and not np.isnan(size) else 0.0


def bubbles(window: Window, picture: Picture, limits: Limits) -> Blame | None:
    """Idle time of the stages that is about (stages - 1) / micro-batches of their work."""
    count = degree(picture, "pp")
    micro = [p.value for p in window.latest(MICRO, job=picture.job.name) if p.value >= 1.0]
    if count < 2 or not micro or COMM not in picture.of:
        return None
    ideal = (count - 1) / float(np.median(micro))
    waits, step = picture.now(COMM), picture.step
    idle = middle(waits / (step - waits))
    if ideal < limits["bubble"] or not 0.6 * ideal <= idle <= 1.7 * ideal:
        return None
    words = (
        f"{count} stages with {np.median(micro):.0f} micro-batches idle for {idle:.0%} of their"
        f" work, as ({count} - 1) / {np.median(micro):.0f} lets expect"
    )
    evidence = [
        Evidence(MICRO, float(np.median(micro)), "micro-batches", f">= {4 * count}"),
        Evidence(COMM, round(middle(waits), 4), "seconds", f"{ideal:.0%} of the work"),
    ]
    return Blame("pipeline-bubbles", 0.87, words, evidence)


def exposed(window: Window, picture: Picture, limits: Limits) -> Blame | None:  # noqa: ARG001
    """Waits in communication that are large on all ranks alike, or that grew alike."""
    parts = share(picture, COMM)
    if np.isnan(parts).any():
        return None
    alike = float(parts.max() - parts.min()) <= HALF * float(np.median(parts))
    grew = picture.slower > 0.0 and picture.rise(COMM) >= HALF * picture.slower
    flat = abs(picture.rise(COMPUTE)) < 0.3 * max(picture.slower, 0.1 * picture.step)
    large = float(parts.min()) >= limits["comm"]
    if not (alike and flat and (large or (grew and float(parts.min()) >= limits["comm"] / 2.0))):
        return None
    waits = picture.now(COMM)
    words = (
        f"every rank waits {np.median(waits) * 1e3:.0f} ms ({np.median(parts):.0%}) of its step for"
        " communication that no compute hides"
    )
    evidence = [Evidence(COMM, round(float(np.median(waits)), 4), "seconds", "hidden by compute")]
    return Blame("comm-not-overlapped", 0.8, words, evidence)
