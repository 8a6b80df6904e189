"""A GPU no longer answers while the driver still does."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules._gpus import INFO, MEASURED, answering, gpu, known, title
from gpudiag.agent.rules._lines import kernel_facts
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Suggestion,
    Threshold,
    Verdict,
)
from gpudiag.agent.window import Window

LOST = "gpudiag_gpu_lost"
COUNT = "gpudiag_gpus"
EXPECTED = "gpudiag_gpus_expected"


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU that was ever seen, as long as the driver still tells of anything."""
    said = {p.labels["uuid"]: p.value for p in window.latest(LOST) if "uuid" in p.labels}
    gpus = known(window)
    there = answering(window)
    if _one_is_missing(window):
        there -= _behind(window, limits)
    for uuid in there | gpus.keys() | said.keys():
        labels = gpus.get(uuid, {"uuid": uuid})
        if said.get(uuid):
            yield _diagnosis(window, limits, uuid, labels, told=True)
        elif uuid in there or uuid.startswith("MIG-"):
            yield Healthy(gpu(uuid))
        elif there or window.latest(COUNT):
            yield _silent(window, limits, uuid, labels)


def _one_is_missing(window: Window) -> bool:
    count, expected = window.value(COUNT), window.value(EXPECTED)
    return count is not None and expected is not None and count < expected


def _behind(window: Window, limits: Limits) -> set[str]:
    """GPUs whose newest reading is older than the others': silent, though not yet stale."""
    newest: dict[str, float] = {}
    for metric in MEASURED:
        for point in window.latest(metric):
            uuid = point.labels.get("uuid", "")
            newest[uuid] = max(newest.get(uuid, point.time), point.time)
    last = max(newest.values(), default=0.0)
    return {uuid for uuid, time in newest.items() if last - time >= limits["behind"]}


def _silent(window: Window, limits: Limits, uuid: str, labels: dict[str, str]) -> Verdict:
    """A GPU without readings, while the driver tells of others or at least counts."""
    count, expected = window.value(COUNT), window.value(EXPECTED)
    whole = sum(1 for one in known(window) if not one.startswith("MIG-"))
    if count is not None and expected is not None and expected <= count < whole:
        # The node has all that it should: this one was taken away on purpose.
        return Healthy(gpu(uuid))
    return _diagnosis(window, limits, uuid, labels, told=False)


def _diagnosis(
    window: Window, limits: Limits, uuid: str, labels: dict[str, str], *, told: bool
) -> Diagnosis:
    index = next((found["gpu"] for found in window.seen(INFO, uuid=uuid) if "gpu" in found), None)
    name = title({"gpu": index, **labels} if index else labels)
    others = len(answering(window) - {uuid})
    how = "the driver says that it is lost" if told else "it stopped answering"
    rest = "1 other GPU answers" if others == 1 else f"{others} other GPUs answer"
    summary = f"{name} is lost: {how}, while {rest}."
    return Diagnosis(
        subject=gpu(uuid),
        cause="gpu-lost",
        confidence=0.95 if told else 0.85 if _one_is_missing(window) else 0.7,
        summary=summary,
        evidence=tuple(_evidence(window, limits, uuid, told=told)),
        rivals=(
            Rival("nvml-wedged", "the driver still answers for others")
            if others
            else Rival("nvml-wedged", "the driver still counts its GPUs"),
        ),
        missing=() if told or window.latest(LOST) else (f"{LOST}: what the driver says of it",),
        actions=_ACTIONS,
    )


def _evidence(window: Window, limits: Limits, uuid: str, *, told: bool) -> Iterator[Evidence]:
    if told:
        yield Evidence(LOST, 1.0, expected="0", labels={"uuid": uuid})
    else:
        yield Evidence(MEASURED[0], "absent", expected="a reading", labels={"uuid": uuid})
    for metric in (COUNT, EXPECTED):
        value = window.value(metric)
        if value is not None:
            yield Evidence(metric, value)
    needles = ("fallen off the bus",)
    for event, _ in kernel_facts(window, limits["kernel"], ("xid", "fallen_off_bus"), needles):
        yield Evidence("kmsg", event.line)


_ACTIONS = (
    Suggestion("drain", "Drain the node: no reset reaches a GPU that the driver has lost."),
    Suggestion("restart", "Reboot the node; if the GPU stays away, power-cycle and inspect it."),
)

RULE = Rule(
    check=check,
    reads=frozenset({*MEASURED, INFO}),
    events=frozenset({"kmsg"}),
    hold=30.0,
    clear=30.0,
    thresholds={
        "behind": Threshold(15.0, "seconds", "silence counts at once where the driver misses one"),
        "kernel": Threshold(600.0, "seconds", "kernel lines this old still belong to the loss"),
    },
)
