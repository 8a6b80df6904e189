"""Memory of the server grows between requests: its cache, its host memory, or its allocator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpudiag.agent.rules import _kept, _serving
from gpudiag.agent.rules._growth import Growth, enough, growth
from gpudiag.agent.rules._latency import LOOK_BACK, OUTPUTS, PARTS, PROMPTS, shift
from gpudiag.agent.rules._serving import Server
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
from gpudiag.agent.window import Series, Window

USED = "gpudiag_gpu_memory_used_bytes"
RESIDENT = "gpudiag_process_resident_bytes"
SHARED_OUT = "gpudiag_process_pss_bytes"
ALLOCATED = "gpudiag_torch_allocated_bytes"
RESERVED = "gpudiag_torch_reserved_bytes"
SPLIT = "gpudiag_torch_inactive_split_bytes"
RETRIES = "gpudiag_torch_alloc_retries_total"
DAY = 86400.0
UNBOUNDED, KEPT, HOST, FRAGMENTS = (
    "kv-cache-unbounded",
    "requests-not-released",
    "host-leak",
    "fragmentation-growth",
)
NO_LIMIT = frozenset({"", "none", "no", "off", "unlimited", "unset", "0", "inf", "-1", "null"})


class _Found(NamedTuple):
    cause: str
    confidence: float
    since: float
    until: float
    words: str
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...] = ()


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every server by its cache, its torch allocator, its GPU and its host memory."""
    found = _serving.servers(window)
    leaking = _processes(window, limits, found)
    for server in found:
        said = _of_server(window, limits, server, alone=len(found) == 1)
        said = said or leaking.pop(server.who, None)
        if said is not None:
            yield _diagnosis(limits, server.who, server.title, said)
        elif _watched(window, server):
            yield Healthy(server.who)
    for who, said in leaking.items():
        yield _diagnosis(limits, who, Server("").title, said)


def _of_server(window: Window, limits: Limits, server: Server, *, alone: bool) -> _Found | None:
    kept = _kept.kept(window, server, limits["kept"])
    if kept is not None and not _longer(window, server):
        expected = f"{kept.usual:.2f} with {kept.running:.0f} running"
        facts = (Evidence(_serving.KV, round(kept.held, 3), "ratio", expected),)
        words = f"{kept.words}: what finished was not given back"
        return _Found(KEPT, 0.85, kept.since, window.now, words, facts)
    torch = _fragments(window, server)
    if torch is not None:
        return torch
    return _unbounded(window, limits, server, alone=alone)


def _longer(window: Window, server: Server) -> bool:
    """Whether the requests themselves became longer, so that fewer fill the cache."""
    for metric in (PROMPTS, OUTPUTS):
        moved = shift(window, metric, server)
        if moved is not None and moved.middle.now > 1.5 * moved.middle.usual:
            return True
    return False


def _fragments(window: Window, server: Server) -> _Found | None:
    """Torch reserves more and more for the same that is allocated."""
    if not server.name:
        return None
    reserved = next(iter(window.minutes(RESERVED, DAY, "min", job=server.name)), None)
    grown = growth(reserved) if reserved is not None else None
    held = next(iter(window.minutes(ALLOCATED, DAY, "min", job=server.name)), None)
    if grown is None or held is None or growth(held) is not None:
        return None
    retries = sum(p.value for p in window.increase(RETRIES, 7200.0, job=server.name))
    split = next(iter(window.minutes(SPLIT, DAY, "min", job=server.name)), None)
    idle = growth(split) if split is not None else None
    if not retries and idle is None:
        return None
    words = f"torch reserves {_size(grown)} more for the same that is allocated"
    facts = (
        Evidence(RESERVED, grown.rate, "bytes per second", "flat, as what is allocated"),
        Evidence(RETRIES, retries, "retries", "0"),
    )
    return _Found(FRAGMENTS, 0.85 if retries else 0.7, grown.since, window.now, words, facts)


def _unbounded(window: Window, limits: Limits, server: Server, *, alone: bool) -> _Found | None:
    """Device memory, or the cache's own size, grows and nothing was told to bound it."""
    # A server that is still loading fills its GPU, which is what it should.
    loading = _serving.value(window, _serving.LOADED, server) == 0.0
    device = None if loading else _device(window, limits, alone=alone)
    capacity = _grows(_serving.trend(window, _kept.CAPACITY, server, LOOK_BACK), limits)
    limit = _limit(window, server)
    cache = None
    if limit == "":
        cache = _grows(_serving.trend(window, _serving.KV, server, LOOK_BACK), limits)
    grown = device or capacity or cache
    if grown is None:
        return None
    where = USED if device else _kept.CAPACITY if capacity else _serving.KV
    fact = Evidence(where, grown.rate, "a second", "flat")
    if limit == "" or (capacity is not None and limit is None):
        words = f"{_amount(grown, where)} more in {_minutes(grown)}, and no limit is set"
        config = Evidence(_serving.CONFIG, "kv_limit not set", "", "a limit")
        return _Found(
            UNBOUNDED,
            0.85 if cache or device else 0.7,
            grown.since,
            window.now,
            words,
            (fact, config),
        )
    if device is None:
        return None
    words = f"its GPU holds {_size(device)} more"
    missing = (
        f"{_serving.CONFIG}{{kv_limit}}: whether its cache is bounded",
        f"{ALLOCATED} and {RESERVED} of the server: whether tensors or fragments grow",
    )
    return _Found(UNDETERMINED, 0.5, device.since, window.now, words, (fact,), missing)


def _limit(window: Window, server: Server) -> str | None:
    """The cache's limit as configured: empty where it has none, None where nobody says."""
    match = {"server": server.name} if server.name else {}
    for point in window.latest(_serving.CONFIG, **match):
        told = point.labels.get("kv_limit")
        if told is None:
            continue
        return "" if told.strip().lower() in NO_LIMIT else told
    return None


def _device(window: Window, limits: Limits, *, alone: bool) -> Growth | None:
    spans = window.minutes(USED, DAY, "min") if alone else []
    grown = [g for s in spans if (g := _grows(s, limits)) is not None]
    return max(grown, key=lambda g: g.rate, default=None)


def _grows(series: Series | None, limits: Limits) -> Growth | None:
    """Growth by more than the daily breathing of a server."""
    if series is None or len(series.values) < 2 or series.values[-1] <= 0.0:
        return None
    scale = 2.0**33 / float(series.values[-1])
    grown = growth(Series(series.labels, series.times, series.values * scale))
    if grown is None or grown.grown < limits["grown"] * grown.level:
        return None
    return Growth(grown.rate / scale, grown.grown / scale, *grown[2:4], grown.level / scale)


def _processes(window: Window, limits: Limits, found: list[Server]) -> dict[Subject, _Found]:
    """Host memory of server processes, which only the process itself explains."""
    leaking: dict[Subject, _Found] = {}
    spans = window.minutes(SHARED_OUT, DAY, "min", role="server")
    for series in spans or window.minutes(RESIDENT, DAY, "min", role="server"):
        grown = _grows(series, limits)
        if grown is None:
            continue
        pid = series.labels.get("pid", "?")
        name = series.labels.get("server") or (found[0].name if len(found) == 1 else "")
        words = f"host memory of process {pid} grew by {_size(grown)} in {_minutes(grown)}"
        metric = SHARED_OUT if spans else RESIDENT
        fact = Evidence(metric, grown.rate, "bytes per second", "flat", series.labels)
        who = subject(server=name) if name else subject(pid=pid)
        leaking[who] = _Found(
            HOST, 0.85, grown.since, window.now, f"{words}, the device's does not", (fact,)
        )
    return leaking


def _minutes(grown: Growth) -> str:
    return f"{grown.seconds / 60.0:.0f} min"


def _watched(window: Window, server: Server) -> bool:
    cache = _serving.trend(window, _serving.KV, server, LOOK_BACK)
    return cache is not None and enough(cache)


def _amount(grown: Growth, metric: str) -> str:
    if metric == USED:
        return _size(grown)
    return (
        f"{grown.grown:.0%} of the cache" if metric == _serving.KV else f"{grown.grown:.0f} tokens"
    )


def _size(grown: Growth) -> str:
    return f"{grown.grown / 2**30:.1f} GiB"


def _diagnosis(limits: Limits, who: Subject, title: str, said: _Found) -> Diagnosis:
    # What has grown for a short time may be a warm-up: it is told, and wakes nobody.
    young = said.cause != KEPT and said.until - said.since < limits["settled"]
    return Diagnosis(
        who,
        said.cause,
        said.confidence,
        f"{title}: {said.words}.",
        said.evidence,
        rivals=tuple(Rival(c, why) for c, why in _WHY_NOT.items() if c != said.cause),
        missing=said.missing,
        actions=_ACTIONS[said.cause],
        severity="info" if young else None,
        since=said.since,
    )


_WHY_NOT = {
    UNBOUNDED: "no sign of a cache that grows without a limit",
    KEPT: "the cache follows the requests that run",
    HOST: "host memory of the server's processes is not seen to grow",
    FRAGMENTS: "torch's reserve is not seen to grow beyond what is allocated",
}
_RESTART = Suggestion("restart", "Drain and restart this replica before memory ends.")
_ACTIONS = {
    UNBOUNDED: (
        Suggestion("degrade", "Set a limit: length (--max-model-len), cache size, output tokens."),
        _RESTART,
    ),
    KEPT: (Suggestion("notify", "Look for aborted or rejected requests in its log."), _RESTART),
    HOST: (
        Suggestion("observe", "`py-spy dump`, `memray attach`: which objects become more."),
        _RESTART,
    ),
    FRAGMENTS: (
        Suggestion("restart", "Restart with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."),
    ),
    UNDETERMINED: (Suggestion("observe", "Attach the hooks to the server to learn which part."),),
}

RULE = Rule(
    check=check,
    reads=frozenset({RETRIES}),
    trends=frozenset(
        {
            *(USED, RESIDENT, SHARED_OUT, ALLOCATED, RESERVED, SPLIT),
            *(_serving.RUNNING, _serving.KV, _kept.CAPACITY, _kept.AVAILABLE),
            *(metric + part for metric in (PROMPTS, OUTPUTS) for part in PARTS),
        }
    ),
    hold=60.0,
    clear=300.0,
    thresholds={
        "kept": Threshold(0.1, "ratio", "of the cache; what is cached and may go counts as free"),
        "settled": Threshold(1800.0, "seconds", "a server's pools and caches have filled by then"),
        "grown": Threshold(0.05, "ratio", "of the level; shared pages and pools breathe by less"),
    },
)
