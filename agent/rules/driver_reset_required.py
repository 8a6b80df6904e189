"""The driver asks for a reset: by its own verdict this GPU needs one before it is whole again."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules import _xids
from gpudiag.agent.rules._gpus import gpu, title
from gpudiag.agent.rules._lines import lines
from gpudiag.agent.rules._spans import held_since
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
from gpudiag.probes.catalog import RecoveryAction, recovery_actions
from gpudiag.probes.catalog.xid import recovery_of

ACTION = "gpudiag_gpu_recovery_action"
CODE = "gpudiag_nvml_return_code"
RESET_REQUIRED = 16.0
LOOK_BACK = 7200.0
_VERDICT_MARK = f"): {_xids.RECOVERY_CHANGED}"
_PHRASE = "GPU requires reset"


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU by NVML's verdict, by XID 154 where that heard nothing, by its answer."""
    judged: set[Subject] = set()
    told = dict(_told(window, limits))
    for point in window.latest(ACTION):
        who = gpu(point.labels["uuid"]) if "uuid" in point.labels else ()
        series = window.series(ACTION, LOOK_BACK, **point.labels)[0]
        if point.value == 0.0 and who in told and _unheard(series, told[who]):
            continue
        judged.add(who)
        if point.value == 0.0:
            yield Healthy(who)
            continue
        since = held_since(series, series.values > 0.0)
        if since is not None and window.now - since >= limits["lasting"]:
            evidence = Evidence(ACTION, point.value, "", "0 (none)", point.labels)
            asked = recovery_actions().get(int(point.value))
            yield _diagnosis(who, title(point.labels), asked, since, evidence)
    for who, verdict in told.items():
        if who not in judged:
            judged.add(who)
            yield verdict
    yield from _answered(window, limits, judged)


def _unheard(series: Series, told: Verdict) -> bool:
    """Whether NVML's zero only goes on from before the kernel's line, and so denies nothing."""
    since = told.since if isinstance(told, Diagnosis) else None
    return since is not None and series.times[0] < since and not series.values.any()


def _told(window: Window, limits: Limits) -> Iterator[tuple[Subject, Verdict]]:
    """The newest XID 154 of each GPU, as the kernel wrote it."""
    kernel = window.events(limits["recent"], source="kmsg")
    if not any(_VERDICT_MARK in event.line for event in kernel):
        return
    log = _xids.read(window, limits["recent"])
    for who, sightings in log.seen.items():
        verdicts = [s for s in sightings if s.code == _xids.RECOVERY_CHANGED and s.line]
        asked = recovery_of(verdicts[-1].detail) if verdicts else None
        if asked is None:
            continue
        newest = verdicts[-1]
        if asked.value == 0 or _xids.recovered(window, log, who) >= newest.time:
            yield who, Healthy(who)
        else:
            evidence = Evidence("kmsg", newest.line, "", "None")
            name = title(dict(who)) if "uuid" in dict(who) else "A GPU"
            yield who, _diagnosis(who, name, asked, newest.time, evidence)


def _answered(window: Window, limits: Limits, judged: set[Subject]) -> Iterator[Verdict]:
    """NVML's return code, or a program's complaint; neither names the GPU for certain."""
    for point in window.latest(CODE):
        keys = ("uuid", "node")
        who = subject(**{key: point.labels[key] for key in keys if key in point.labels})
        if who in judged:
            continue
        series = window.series(CODE, LOOK_BACK, **point.labels)[0]
        since = held_since(series, series.values == RESET_REQUIRED)
        if since is None:
            yield Healthy(who)
        elif window.now - since >= limits["lasting"]:
            name = title(point.labels) if "uuid" in point.labels else "A GPU of this node"
            evidence = Evidence(CODE, RESET_REQUIRED, "", "0", point.labels)
            yield _diagnosis(who, name, recovery_actions()[1], since, evidence)
        return
    said = next(lines(window, limits["recent"], _PHRASE), None)
    if said and not judged:
        evidence = Evidence(said.source, said.line)
        yield _diagnosis((), "A GPU", recovery_actions()[1], said.time, evidence)


def _diagnosis(
    who: Subject, name: str, asked: RecoveryAction | None, since: float, evidence: Evidence
) -> Diagnosis:
    wish = asked.meaning if asked else f"an action this version does not know ({evidence.value})"
    return Diagnosis(
        who,
        "driver-reset-required",
        0.95 if asked else 0.6,
        f"{name}: the driver asks for recovery: {wish}.",
        (evidence,),
        rivals=(
            Rival("nvml-wedged", "the driver answers, and says itself what it needs"),
            Rival("gpu-lost", "the GPU is still on the bus and answers"),
        ),
        missing=() if "uuid" in dict(who) else ("which GPU: gpudiag_gpu_info with its bus id",),
        actions=_steps(asked.name if asked else ""),
        since=since,
    )


_DRAIN = Suggestion("drain", "Take no new work on this GPU; let the job write a checkpoint.")
_RESET = Suggestion(
    "restart",
    "Stop everything that holds the GPU (monitoring and nvidia-persistenced too), then"
    " `nvidia-smi --gpu-reset -i N`; GPUs joined by NVSwitch are reset together.",
)
_REBOOT = Suggestion("restart", "Reboot the node: the driver says that a GPU reset is not enough.")


def _steps(name: str) -> tuple[Suggestion, ...]:
    if "reboot" in name:
        return (_DRAIN, _REBOOT)
    return (_DRAIN,) if name == "drain_p2p" else (_DRAIN, _RESET)


RULE = Rule(
    check=check,
    reads=frozenset({ACTION, CODE}) | _xids.READS,
    events=frozenset({"kmsg"}),
    thresholds={
        "lasting": Threshold(10.0, "seconds", "a reset that is under way clears it by itself"),
        "recent": Threshold(86_400.0, "seconds", "only a reset takes the driver's verdict back"),
    },
)
