"""A GPU no longer answers while the driver still does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from gpudiag.agent.rules import _xids
from gpudiag.agent.rules._gpus import INFO, MEASURED, answering, by_bus, gpu, known, title
from gpudiag.agent.rules._lines import Where, lines
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
)
from gpudiag.agent.window import Window
from gpudiag.probes.kernel_lines import normalise_pci

LOST = "gpudiag_gpu_lost"
COUNT = "gpudiag_gpus"
EXPECTED = "gpudiag_gpus_expected"
SUCCESS = "gpudiag_probe_success"
_FALLEN = "fallen off the bus"
_NVML_LOST = "GPU is lost"
_ADDRESS = re.compile(r"GPU ?\d*:? ?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.\d)?)")


class _Word(NamedTuple):
    """Who says that a GPU is lost: when, where it stands, in words, and how sure that makes it."""

    time: float
    source: str
    line: str
    how: str
    sure: float


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU that was ever seen, as long as the driver still tells of anything."""
    said = {p.labels["uuid"]: p.value for p in window.latest(LOST) if "uuid" in p.labels}
    gpus = known(window)
    there = answering(window) - _behind(window, limits, gpus)
    neighbours = {gpus[uuid].get("node") for uuid in there if uuid in gpus}
    written = _written(window, limits)
    for uuid in there | gpus.keys() | said.keys():
        labels = gpus.get(uuid, {"uuid": uuid})
        word = written.pop(gpu(uuid), None)
        if said.get(uuid):
            word = _Word(window.now, LOST, "", "the driver says that it is lost", 0.95)
        if word:
            yield _diagnosis(window, gpu(uuid), labels, word)
        elif uuid in there or uuid.startswith("MIG-"):
            yield Healthy(gpu(uuid))
        elif labels.get("node") in neighbours or _counts(window, _where(labels)):
            yield _silent(window, uuid, labels)
    for where, word in written.items():
        yield _diagnosis(window, where, dict(where), word)


def _where(labels: dict[str, str]) -> Where:
    return {"node": labels["node"]} if labels.get("node") else {}


def _counts(window: Window, where: Where) -> bool:
    """Whether the driver still counts its GPUs: a wedged one answers for none of them."""
    answers = window.value(SUCCESS, probe="nvml", **where) != 0.0
    return answers and bool(window.latest(COUNT, **where))


def _written(window: Window, limits: Limits) -> dict[Subject, _Word]:
    """GPUs that the kernel or NVML's answer in a log called lost, and that answered no more."""
    found: dict[Subject, _Word] = {}
    recent = limits["kernel"]
    for event in lines(window, recent, _NVML_LOST):
        address = _ADDRESS.search(event.line)
        uuid = by_bus(window).get(("", normalise_pci(address[1]))) if address else None
        if uuid:
            how = "NVML says that it is lost"
            found[gpu(uuid)] = _Word(event.time, event.source, event.line, how, 0.9)
    if any(_FALLEN in event.line for event in window.events(recent, source="kmsg")):
        log = _xids.read(window, recent)
        for where, told in log.seen.items():
            last = next((s for s in reversed(told) if s.code == _xids.FALLEN_OFF and s.line), None)
            if last and _xids.recovered(window, log, where) < last.time:
                how = f"the kernel says that it has {_FALLEN}"
                found[where] = _Word(last.time, "kmsg", last.line, how, 0.95)
    newest = _newest(window) if found else {}
    return {
        where: word
        for where, word in found.items()
        if newest.get(dict(where).get("uuid", ""), 0.0) < word.time + limits["behind"]
    }


def _one_is_missing(window: Window, where: Where) -> bool:
    count, expected = window.value(COUNT, **where), window.value(EXPECTED, **where)
    return count is not None and expected is not None and count < expected


def _behind(window: Window, limits: Limits, gpus: dict[str, dict[str, str]]) -> set[str]:
    """Silent though not yet stale: older readings than their neighbours', and a count that fell."""
    found: set[str] = set()
    newest = _newest(window)
    for node in {labels.get("node", "") for labels in gpus.values()}:
        if _one_is_missing(window, _where({"node": node})):
            mine = {u: t for u, t in newest.items() if gpus.get(u, {}).get("node", "") == node}
            last = max(mine.values(), default=0.0)
            found |= {uuid for uuid, time in mine.items() if last - time >= limits["behind"]}
    return found


def _newest(window: Window) -> dict[str, float]:
    newest: dict[str, float] = {}
    for metric in MEASURED:
        for point in window.latest(metric):
            uuid = point.labels.get("uuid", "")
            newest[uuid] = max(newest.get(uuid, point.time), point.time)
    return newest


def _silent(window: Window, uuid: str, labels: dict[str, str]) -> Verdict:
    """A GPU without readings, while the driver tells of others or at least counts."""
    where = _where(labels)
    count, expected = window.value(COUNT, **where), window.value(EXPECTED, **where)
    mine = [u for u, told in known(window).items() if told.get("node") == labels.get("node")]
    whole = sum(1 for one in mine if not one.startswith("MIG-"))
    if count is not None and expected is not None and expected <= count < whole:
        # The node has all that it should: this one was taken away on purpose.
        return Healthy(gpu(uuid))
    sure = 0.85 if _one_is_missing(window, where) else 0.7
    word = _Word(window.now, "", "", "it stopped answering", sure)
    return _diagnosis(window, gpu(uuid), labels, word)


def _diagnosis(window: Window, who: Subject, labels: dict[str, str], word: _Word) -> Diagnosis:
    uuid = dict(who).get("uuid", "")
    index = next((found["gpu"] for found in window.seen(INFO, uuid=uuid) if "gpu" in found), None)
    name = title({"gpu": index, **labels} if index else labels) if uuid else _place(who)
    there, node = answering(window) - {uuid}, labels.get("node")
    others = sum(1 for u, told in known(window).items() if u in there and told.get("node") == node)
    rest = "1 other GPU answers" if others == 1 else f"{others} other GPUs answer"
    while_ = f", while {rest}" if others else ""
    still = "answers for others" if others else "counts its GPUs"
    told = word.source or window.latest(LOST)
    return Diagnosis(
        subject=who,
        cause="gpu-lost",
        confidence=word.sure,
        summary=f"{name} is lost: {word.how}{while_}.",
        evidence=tuple(_evidence(window, uuid, word, _where(labels))),
        rivals=() if word.line else (Rival("nvml-wedged", f"the driver still {still}"),),
        missing=() if told else (f"{LOST}: what the driver says of it",),
        actions=_ACTIONS,
    )


def _place(who: Subject) -> str:
    return f"The GPU at {dict(who).get('device', 'an unknown address')}"


def _evidence(window: Window, uuid: str, word: _Word, where: Where) -> Iterator[Evidence]:
    if word.source == LOST:
        yield Evidence(LOST, 1.0, expected="0", labels={"uuid": uuid})
    elif word.line:
        yield Evidence(word.source, word.line)
    else:
        yield Evidence(MEASURED[0], "absent", expected="a reading", labels={"uuid": uuid})
    for metric in (COUNT, EXPECTED):
        value = window.value(metric, **where)
        if value is not None:
            yield Evidence(metric, value, labels=where)


_ACTIONS = (
    Suggestion("drain", "Drain the node: no reset reaches a GPU that the driver has lost."),
    Suggestion("restart", "Reboot the node; if the GPU stays away, power-cycle and inspect it."),
)

RULE = Rule(
    check=check,
    reads=frozenset({*MEASURED, INFO}) | _xids.READS,
    events=frozenset({"kmsg", "log"}),
    hold=30.0,
    clear=30.0,
    thresholds={
        "behind": Threshold(15.0, "seconds", "silence counts at once where the driver misses one"),
        "kernel": Threshold(600.0, "seconds", "a line this old still speaks of the loss"),
    },
)
