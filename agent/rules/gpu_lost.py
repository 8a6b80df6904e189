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
    there = answering(window)
    for uuid in there:
        if not said.get(uuid):
            yield Healthy(gpu(uuid))
    silent = [(uuid, labels) for uuid, labels in known(window).items() if uuid not in there]
    lost = [(uuid, labels) for uuid, labels in silent if said.get(uuid)]
    lost += [(u, {"uuid": u}) for u in there if said.get(u)]
    for uuid, labels in lost:
        yield _diagnosis(window, limits, uuid, labels, told=True)
    # Where every GPU is silent the driver or the agent is, and that is another symptom.
    if not there and not _counts(window):
        return
    for uuid, labels in silent:
        if said.get(uuid):
            continue
        if uuid.startswith("MIG-") or _taken_away(window):
            yield Healthy(gpu(uuid))
        else:
            yield _diagnosis(window, limits, uuid, labels, told=False)


def _counts(window: Window) -> bool:
    return bool(window.latest(COUNT))


def _taken_away(window: Window) -> bool:
    """Whether the node has all the GPUs it should, so that the silent one is meant to be gone."""
    count, expected = window.value(COUNT), window.value(EXPECTED)
    return (
        count is not None
        and expected is not None
        and expected <= count < len({u for u in known(window) if not u.startswith("MIG-")})
    )


def _diagnosis(
    window: Window, limits: Limits, uuid: str, labels: dict[str, str], *, told: bool
) -> Diagnosis:
    index = next((found["gpu"] for found in window.seen(INFO, uuid=uuid) if "gpu" in found), None)
    name = title({"gpu": index, **labels} if index else labels)
    others = len(answering(window) - {uuid})
    how = "the driver says that it is lost" if told else "it stopped answering"
    summary = f"{name} is lost: {how}, while {others} other GPUs answer."
    return Diagnosis(
        subject=gpu(uuid),
        cause="gpu-lost",
        confidence=0.95 if told else 0.8,
        summary=summary,
        evidence=tuple(_evidence(window, limits, uuid, told=told)),
        rivals=(
            Rival("nvml-wedged", "the driver still answers for others")
            if others
            else Rival("nvml-wedged", "the driver still counts its GPUs"),
        ),
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
    hold=15.0,
    clear=30.0,
    thresholds={
        "kernel": Threshold(600.0, "seconds", "kernel lines this old still belong to the loss"),
    },
)
