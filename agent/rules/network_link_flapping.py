"""A network link goes down and comes back, again and again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from gpudiag.agent.rules._lines import event_node, kernel_facts
from gpudiag.agent.rules.contract import (
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
from gpudiag.probes.catalog import Severity

IB_DOWNED = "gpudiag_ib_link_downed_total"
IB_UP = "gpudiag_ib_port_up"
CARRIER = "gpudiag_network_carrier_changes_total"
UP = "gpudiag_network_up"
UPTIME = "gpudiag_host_uptime_seconds"
IB_ERRORS = "gpudiag_ib_errors_total"
# Container plumbing and the board controller's own USB link come and go by design.
_VIRTUAL = re.compile(
    r"^(?:lo|veth|docker|br-|cali|cilium|lxc|cni|flannel|tunl|tun|tap|virbr|vnet|kube|ovs|dummy"
    r"|wg|usb|enx|vxlan|geneve|nodelocaldns)"
)
_NEEDLES = ("ink is ", "ink down", "ink Down", "ink up", "ink Up", "definitely ", "becomes ready")


@dataclass(slots=True)
class _Link:
    """What was counted of one link: times at which it went down, by source."""

    downs: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    ports: set[str] = field(default_factory=set)
    line: str = ""

    def most(self) -> tuple[str, list[float]]:
        # Counter, state and kernel line tell of the same flap, so they are not added up.
        return max(self.downs.items(), key=lambda told: len(told[1]), default=("", []))


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every link that has a counter or a state, and every one that the kernel names."""
    links: defaultdict[Subject, _Link] = defaultdict(_Link)
    since = window.now - limits["within"]
    counted = _counters(window, limits, links)
    for metric in (IB_UP, UP):
        for point in window.latest(metric):
            # The counter sees what a sampled state misses.
            if _who(point.labels) not in counted:
                for series in window.series(metric, limits["within"], **point.labels):
                    _count(links, metric, series)
    _from_kernel(window, limits, links)
    for who, link in links.items():
        source, times = link.most()
        times = [t for t in times if t >= since and not _booting(window, limits, who, t)]
        if len(times) >= limits["noted"]:
            severity: Severity = "warning" if len(times) >= limits["times"] else "info"
            yield _diagnosis(window, who, link, (source, times), severity)
        else:
            yield Healthy(who)


def _counters(window: Window, limits: Limits, links: dict[Subject, _Link]) -> set[Subject]:
    """Count the drops by counter; gives the links that have one."""
    counted = set()
    for metric in (IB_DOWNED, CARRIER):
        for point in window.latest(metric):
            who = _who(point.labels)
            counted.add(who)
            # So few since the counter began cannot be too many in the last hour.
            if point.value < limits["noted"] and not _VIRTUAL.match(dict(who).get("device", "")):
                links[who].downs.setdefault(metric, [])
                continue
            for series in window.series(metric, limits["within"], **point.labels):
                _count(links, metric, series)
    return counted


def _who(labels: dict[str, str]) -> Subject:
    return subject(**{key: labels[key] for key in ("node", "device") if key in labels})


def _count(links: dict[Subject, _Link], metric: str, series: Series) -> None:
    if _VIRTUAL.match(series.labels.get("device", "")) or not len(series.values):
        return
    link = links[_who(series.labels)]
    source = f"{metric} {series.labels.get('port', '')}".strip()
    link.downs[source] = []
    states = metric in (IB_UP, UP)
    if not states and series.values[0] == series.values[-1]:
        return
    steps = np.diff(series.values)
    moved = np.flatnonzero(steps < 0.0 if states else steps > 0.0)
    # The carrier counts the way down and the way up.
    each = 0.5 if metric == CARRIER else 1.0
    risen = 0.0
    for row in moved:
        risen += 1.0 if states else float(steps[row]) * each
        time = float(series.times[row + 1])
        link.downs[source] += [time] * (int(risen) - len(link.downs[source]))
    if link.downs[source]:
        link.ports.add(series.labels.get("port", ""))


def _from_kernel(window: Window, limits: Limits, links: dict[Subject, _Link]) -> None:
    # Twice the span, so that a link that only the kernel names is seen to have calmed down.
    seconds = 2.0 * limits["within"]
    came_up: defaultdict[Subject, list[float]] = defaultdict(list)
    for event, fact in kernel_facts(window, seconds, ("link_down", "link_up"), _NEEDLES):
        if not fact.name or _VIRTUAL.match(fact.name):
            continue
        who = subject(**event_node(event), device=fact.name)
        down = fact.kind == "link_down"
        times = links[who].downs["kmsg"] if down else came_up[who]
        # A driver and the layer above it word the same change twice.
        if not times or event.time - times[-1] >= limits["apart"]:
            times.append(event.time)
        if down:
            links[who].line = event.line
    for who, times in came_up.items():
        # Some drivers word only the way up; what came up again had gone down before.
        links[who].downs["kmsg (up again)"] = times[1:]


def _booting(window: Window, limits: Limits, who: Subject, time: float) -> bool:
    node = {key: value for key, value in who if key == "node"}
    uptime = window.value(UPTIME, **node)
    return uptime is not None and time - (window.now - uptime) < limits["boot"]


def _diagnosis(
    window: Window,
    who: Subject,
    link: _Link,
    told: tuple[str, list[float]],
    severity: Severity,
) -> Diagnosis:
    source, times = told
    labels = dict(who)
    name = labels.get("device", "a link")
    ports = "/".join(sorted(link.ports - {""}))
    errors = sum(p.value for p in window.increase(IB_ERRORS, 3600.0, **labels))
    span = (window.now - times[0]) / 60.0
    evidence = [Evidence(source, float(len(times)), "times down", "0", labels)]
    if link.line and source != "kmsg":
        evidence.append(Evidence("kmsg", link.line))
    if errors:
        evidence.append(Evidence(IB_ERRORS, errors, "errors", "0", labels))
    return Diagnosis(
        who,
        "network-link-flapping",
        0.95 if errors or len(link.downs) > 1 else 0.88,
        f"{name}" + (f" port {ports}" if ports else "") + f" lost its link {len(times)} times in"
        f" {span:.0f} min, last {window.now - times[-1]:.0f} s ago: collectives over it stall or"
        " time out each time.",
        tuple(evidence),
        rivals=(
            Rival("planned work", "a replugged cable or a switch reboot takes a link down once"),
        ),
        actions=_ACTIONS,
        severity=severity,
        since=times[0],
    )


_ACTIONS = (
    Suggestion(
        "notify",
        "Reseat or replace cable and transceiver (`ethtool -m DEV`, `mlxlink -d DEV -m -c`), and"
        " look at the same port on the switch.",
    ),
    Suggestion("drain", "Keep new multi-node jobs off this node until the link holds for an hour."),
)

RULE = Rule(
    check=check,
    reads=frozenset({IB_DOWNED, IB_UP, CARRIER, UP, IB_ERRORS}),
    events=frozenset({"kmsg"}),
    thresholds={
        "times": Threshold(3.0, "times", "gpud calls three drops flapping; one is planned work"),
        "noted": Threshold(2.0, "times", "worth a note: one more and it flaps"),
        "within": Threshold(3600.0, "seconds", "a bad cable shows itself within the hour"),
        "apart": Threshold(2.0, "seconds", "lines closer together are of one change"),
        "boot": Threshold(180.0, "seconds", "links train several times while a node boots"),
    },
)
