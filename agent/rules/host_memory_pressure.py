"""The host runs short of memory: tasks stall for it, or the kernel kills for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpudiag.agent.rules._lines import Where, at, event_node, kernel_facts, nodes
from gpudiag.agent.rules._spans import above_since, held_since, mostly_above, steady_slope, tail
from gpudiag.agent.rules.contract import (
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
from gpudiag.agent.window import Point, Series, Window
from gpudiag.probes.catalog import Severity

PRESSURE = "gpudiag_host_pressure_ratio"
TOTAL = "gpudiag_host_memory_total_bytes"
AVAILABLE = "gpudiag_host_memory_available_bytes"
GROUP = "gpudiag_cgroup_memory_bytes"
GROUP_LIMIT = "gpudiag_cgroup_memory_limit_bytes"
KILLS = "gpudiag_cgroup_oom_kills_total"
RESIDENT = "gpudiag_process_resident_bytes"
SHARED_OUT = "gpudiag_process_pss_bytes"
LOOK_BACK = 1800.0
GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class _Sign:
    """One thing that says memory is short: how sure, since when, in words and as evidence."""

    confidence: float
    since: float
    words: str
    evidence: Evidence
    severity: Severity = "warning"


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every node by its kills, its stalls, its free memory and its control groups."""
    kill = _kernel_kill(window, limits)
    places = _places(window)
    if kill and not places:
        yield _diagnosis(kill[0], [kill[1]])
    for where in places:
        # A kernel line without a node belongs to the only one there is.
        mine = kill[1] if kill and (kill[0] == where or len(places) == 1) else None
        signs = [s for s in (mine, *_signs(window, limits, where)) if s is not None]
        if signs:
            yield _diagnosis(where, signs)
        elif _blind(window, limits, where):
            yield Unknown(at(where), (f"{PRESSURE}{{resource=memory}} (boot with psi=1)", RESIDENT))
        else:
            yield Healthy(at(where))


def _places(window: Window) -> list[Where]:
    points = window.latest(PRESSURE, resource="memory")
    for metric in (AVAILABLE, GROUP, KILLS):
        points += window.latest(metric)
    return nodes(points)


def _signs(window: Window, limits: Limits, where: Where) -> Iterator[_Sign | None]:
    yield _counted_kills(window, limits, where)
    yield _stalls(window, limits, where, "full", limits["stalled"])
    yield _stalls(window, limits, where, "some", limits["stalled_some"])
    yield _little_left(window, limits, where)
    yield _group_full(window, limits, where)


def _kernel_kill(window: Window, limits: Limits) -> tuple[Where, _Sign] | None:
    needles = ("oom-kill:", "Out of memory", "out of memory", "Killed process")
    facts = kernel_facts(window, limits["remember"], ("oom_kill",), needles)
    if not facts:
        return None
    event, fact = facts[-1]
    in_group = "emory cgroup" in event.line or "CONSTRAINT_MEMCG" in event.line
    bound = "its control group's limit" if in_group else "the host's memory"
    words = (
        f"the kernel killed {fact.name or 'a process'} (pid {fact.pid}) because {bound} was used up"
    )
    evidence = Evidence("kmsg", event.line, "", "no OOM kill")
    return event_node(event), _Sign(0.95, facts[0][0].time, words, evidence, "critical")


def _counted_kills(window: Window, limits: Limits, where: Where) -> _Sign | None:
    for rise in window.increase(KILLS, limits["remember"], **where):
        if rise.value > 0.0:
            series = window.series(KILLS, limits["remember"], **rise.labels)[0]
            since = float(series.times[series.values > series.values[0]][0])
            group = rise.labels.get("cgroup", "a control group")
            words = f"{rise.value:.0f} process(es) of {group} were killed at its memory limit"
            evidence = Evidence(KILLS, rise.value, "kills", "0", rise.labels)
            return _Sign(0.95, since, words, evidence, "critical")
    return None


def _stalls(window: Window, limits: Limits, where: Where, kind: str, limit: float) -> _Sign | None:
    newest = window.value(PRESSURE, resource="memory", kind=kind, **where)
    if newest is None or newest < limit / 2.0:
        return None
    series = window.series(PRESSURE, LOOK_BACK, resource="memory", kind=kind, **where)[0]
    # Page cache under a fast reader makes some task wait for a while, but not all of them.
    lasting = limits["lasting"] * (1.0 if kind == "full" else 2.0)
    if not mostly_above(series, lasting, limit):
        return None
    who = "all tasks" if kind == "full" else "some task"
    words = f"{who} stood still for memory {newest:.0%} of the time"
    evidence = Evidence(PRESSURE, newest, "ratio", f"< {limit:g}", series.labels)
    return _Sign(0.9, above_since(series, limit), words, evidence)


def _little_left(window: Window, limits: Limits, where: Where) -> _Sign | None:
    total, left = window.value(TOTAL, **where), window.value(AVAILABLE, **where)
    if not total or left is None or left / total >= limits["falling_left"]:
        return None
    waits = window.value(PRESSURE, resource="memory", kind="some", **where)
    limit = limits["falling_left" if _waited_for(window, limits, where) else "left"]
    series = window.series(AVAILABLE, LOOK_BACK, **where)[0]
    since = held_since(series, series.values < limit * total)
    slope = _fall(series, LOOK_BACK) or _fall(series, limits["lasting"] * 4.0)
    words = f"{left / GIB:.1f} of {total / GIB:.0f} GiB are available ({left / total:.1%})"
    evidence = Evidence(AVAILABLE, left, "bytes", f"> {limit:.0%} of {total:.3g}")
    if slope < 0.0 and -left / slope < limits["exhausted_in"]:
        words += f", gone in {-left / slope / 60.0:.0f} min at this rate"
        return _Sign(0.85, since or window.now, words, evidence)
    # Little left that nobody waits for is a host sized to its job.
    calm = waits is not None and waits < limits["calm"]
    if since is None or calm or series.times[-1] - since < limits["lasting"]:
        return None
    return _Sign(0.75, since, words, evidence)


def _waited_for(window: Window, limits: Limits, where: Where) -> bool:
    """Whether somebody waits for memory for a while: a fast reader does so for a moment only."""
    if (window.value(PRESSURE, resource="memory", kind="some", **where) or 0.0) < limits["beside"]:
        return False
    series = window.series(PRESSURE, LOOK_BACK, resource="memory", kind="some", **where)[0]
    return mostly_above(series, limits["lasting"], limits["beside"])


def _fall(series: Series, seconds: float) -> float:
    if len(series.times) < 2:
        return 0.0
    spacing = float(series.times[-1] - series.times[-2])
    whole = float(series.times[-1] - series.times[0])
    last = tail(series, max(min(seconds, whole), 9.0 * spacing))
    return steady_slope(last) if last is not None else 0.0


def _group_full(window: Window, limits: Limits, where: Where) -> _Sign | None:
    """A control group at its limit is short of memory only if page cache does not fill it."""
    for use, limit in _near_limit(window, limits, where):
        if not _needed(window, limits, where, limit):
            continue
        series = window.series(GROUP, LOOK_BACK, **use.labels)[0]
        since = held_since(series, series.values >= limits["group"] * limit)
        if since is None or series.times[-1] - since < limits["lasting"]:
            continue
        group = use.labels.get("cgroup", "the control group")
        words = f"{group} holds {use.value / GIB:.1f} of its {limit / GIB:.1f} GiB limit"
        expected = f"< {limits['group']:.0%} of {limit:.3g}"
        return _Sign(0.8, since, words, Evidence(GROUP, use.value, "bytes", expected, use.labels))
    return None


def _needed(window: Window, limits: Limits, where: Where, limit: float) -> bool:
    """Whether processes, and not files they read, hold the group's memory."""
    if window.latest(PRESSURE, resource="memory", **where):
        # Mapped files count as resident, so where stalls are measured they alone decide.
        return _waited_for(window, limits, where)
    held = window.latest(SHARED_OUT, **where) or window.latest(RESIDENT, **where)
    return sum(p.value for p in held) >= limits["held"] * limit


def _near_limit(window: Window, limits: Limits, where: Where) -> Iterator[tuple[Point, float]]:
    for use in window.latest(GROUP, **where):
        limit = window.value(GROUP_LIMIT, **use.labels)
        if limit and use.value >= limits["group"] * limit:
            yield use, limit


def _blind(window: Window, limits: Limits, where: Where) -> bool:
    """A full control group, and neither stalls nor processes to tell page cache from need."""
    measured = window.latest(PRESSURE, resource="memory", **where) or window.latest(
        RESIDENT, **where
    )
    return not measured and any(_near_limit(window, limits, where))


def _diagnosis(where: Where, signs: list[_Sign]) -> Diagnosis:
    since = min(s.since for s in signs)
    text = "; ".join(dict.fromkeys(s.words for s in signs))
    critical = any(s.severity == "critical" for s in signs)
    return Diagnosis(
        at(where),
        "host-memory-pressure",
        min(0.98, max(s.confidence for s in signs) + 0.03 * (len(signs) - 1)),
        f"Host memory is short: {text}.",
        tuple(s.evidence for s in signs),
        actions=_ACTIONS,
        severity="critical" if critical else "warning",
        since=since,
    )


_ACTIONS = (
    Suggestion(
        "notify",
        "Name the process that grows (`ps -eo pid,rss,comm --sort=-rss | head`) before it is"
        " killed; a checkpoint now keeps the training's work.",
    ),
    Suggestion(
        "degrade",
        "Fewer data-loader workers, a smaller prefetch factor, no pinned memory; or a higher"
        " memory limit for the pod.",
    ),
)

RULE = Rule(
    check=check,
    reads=frozenset({PRESSURE, AVAILABLE, GROUP, KILLS}),
    events=frozenset({"kmsg"}),
    thresholds={
        "stalled": Threshold(
            0.1, "ratio", "PSI full: a tenth of all time lost; systemd-oomd kills at 0.6 for 30 s"
        ),
        "stalled_some": Threshold(
            0.25, "ratio", "PSI some: streaming reads through page cache stay below 0.1"
        ),
        "calm": Threshold(0.01, "ratio", "PSI some below which nobody waits for memory"),
        "left": Threshold(0.05, "ratio", "available memory; below it the kernel reclaims hard"),
        "falling_left": Threshold(0.1, "ratio", "where a steady fall begins to count"),
        "exhausted_in": Threshold(3600.0, "seconds", "time to look before the OOM killer comes"),
        "group": Threshold(0.95, "ratio", "of the limit; reclaim in the group starts near it"),
        "held": Threshold(0.8, "ratio", "of a group's limit held by processes; without PSI"),
        "beside": Threshold(
            0.05, "ratio", "PSI some that tells need from page cache where memory is nearly full"
        ),
        "lasting": Threshold(30.0, "seconds", "systemd-oomd's own duration"),
        "remember": Threshold(600.0, "seconds", "how long a kill speaks of the present"),
    },
)
