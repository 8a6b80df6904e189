"""What counters, states and the kernel say of links that fail: shared by the training rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpudiag.agent.rules._lines import kernel_facts
from gpudiag.agent.rules.contract import Evidence
from gpudiag.agent.window import Window

IB_DOWNED = "gpudiag_ib_link_downed_total"
IB_UP = "gpudiag_ib_port_up"
IB_ERRORS = "gpudiag_ib_errors_total"
CARRIER = "gpudiag_network_carrier_changes_total"
UP = "gpudiag_network_up"
NET_ERRORS = "gpudiag_network_errors_total"
READS = frozenset({IB_DOWNED, IB_UP, IB_ERRORS, CARRIER, UP, NET_ERRORS})

_VIRTUAL = re.compile(r"^(?:lo|veth|docker|br-|cali|cilium|lxc|cni|flannel|tun|tap|virbr|usb)")
_LINE_NEEDLES = ("ink is ", "ink down", "ink Down", "definitely ")
# A few symbol errors an hour are within the specification of a link.
_SOME_ERRORS = 10.0


class Sign(NamedTuple):
    """One sign; `hard` where a link went down, not where it only made errors."""

    hard: bool
    words: str
    evidence: Evidence


def network_signs(window: Window, seconds: float) -> list[Sign]:
    """The signs of the last `seconds`, links that went down first."""
    return [*_downs(window, seconds), *_states(window, seconds), *_lines(window, seconds),
            *_errors(window, seconds)]  # fmt: skip


def _downs(window: Window, seconds: float) -> Iterator[Sign]:
    for metric in (IB_DOWNED, CARRIER):
        for rise in window.increase(metric, seconds):
            device = rise.labels.get("device", "a link")
            if rise.value > 0.0 and not _VIRTUAL.match(device):
                words = f"{device} lost its link"
                yield Sign(True, words, Evidence(metric, rise.value, "times", "0", rise.labels))


def _states(window: Window, seconds: float) -> Iterator[Sign]:
    for metric in (IB_UP, UP):
        for series in window.series(metric, seconds):
            device = series.labels.get("device", "a port")
            if not len(series.values) or _VIRTUAL.match(device):
                continue
            if series.values.max() > 0.0 and series.values.min() == 0.0:
                evidence = Evidence(metric, 0.0, "", "1", series.labels)
                yield Sign(True, f"{device} went down", evidence)


def _lines(window: Window, seconds: float) -> Iterator[Sign]:
    for event, fact in kernel_facts(window, seconds, ("link_down",), _LINE_NEEDLES):
        if fact.name and not _VIRTUAL.match(fact.name):
            yield Sign(True, f"{fact.name} lost its link", Evidence("kmsg", event.line))


def _errors(window: Window, seconds: float) -> Iterator[Sign]:
    for metric in (IB_ERRORS, NET_ERRORS):
        for rise in window.increase(metric, seconds):
            device = rise.labels.get("device", "a port")
            if rise.value >= _SOME_ERRORS and not _VIRTUAL.match(device):
                words = f"{device} made {rise.value:.0f} errors"
                yield Sign(False, words, Evidence(metric, rise.value, "errors", "0", rise.labels))
