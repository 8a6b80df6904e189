"""The GPU is slowed by the power brake: the server's power supply asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules._gpus import gpu, title
from gpudiag.agent.rules._throttle import (
    ACTIVE,
    READS,
    Share,
    clock_evidence,
    clock_words,
    shares,
)
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

POWER = "gpudiag_gpu_power_watts"
LIMIT = "gpudiag_gpu_power_limit_watts"
REASON = "power_brake"


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU that tells whether the power brake holds it; the power cap is normal."""
    found = list(shares(window, (REASON,), limits["span"], limits["recent"]))
    held = [share for share in found if share.lasts(limits)]
    for share in found:
        if share in held:
            yield _diagnosis(window, limits, share, len(held), len(found))
        else:
            yield Healthy(gpu(share.labels.get("uuid", "")))


def _diagnosis(window: Window, limits: Limits, share: Share, held: int, all_: int) -> Diagnosis:
    uuid = share.labels["uuid"]
    summary = (
        f"{title(share.labels)} has spent {share.words} held by the external power brake"
        f"{clock_words(window, uuid)}."
    )
    if held > 1:
        summary += f" {held} of {all_} GPUs are held: look at the node's power supplies first."
    power = window.value(POWER, uuid=uuid)
    limit = window.value(LIMIT, uuid=uuid)
    expected = "" if limit is None else f"limit {limit:.0f} W"
    drawn = [] if power is None else [Evidence(POWER, power, "watts", expected, {"uuid": uuid})]
    where = {"uuid": uuid, "reason": REASON}
    below = f"below {limits['share']:g}"
    return Diagnosis(
        subject=gpu(uuid),
        cause="power-brake",
        confidence=0.92,
        summary=summary,
        evidence=(
            Evidence(ACTIVE, round(max(share.ratio, share.spread), 3), "ratio", below, where),
            *drawn,
            *clock_evidence(window, uuid),
        ),
        rivals=_rivals(window, uuid),
        actions=_ACTIONS,
        since=share.since,
    )


_ACTIONS = (
    Suggestion("notify", "Check the power supplies and feeds: BMC event log, `ipmitool sdr type`."),
    Suggestion("drain", "Move the work off the node until its power is whole again."),
)


def _rivals(window: Window, uuid: str) -> tuple[Rival, ...]:
    found = []
    if window.value(ACTIVE, uuid=uuid, reason="hw_thermal") == 0.0:
        found.append(Rival("thermal-throttle", "the thermal flag is not set"))
    if window.value(ACTIVE, uuid=uuid, reason="power_cap"):
        found.append(Rival("power-cap", "is the GPU's own limit and normal; the brake is external"))
    return tuple(found)


RULE = Rule(
    check=check,
    reads=READS,
    hold=15.0,
    clear=120.0,
    thresholds={
        "span": Threshold(120.0, "seconds", "long enough that a single reading is no share"),
        "spread": Threshold(0.15, "ratio", "it comes and goes, in both halves of eight minutes"),
        "recent": Threshold(45.0, "seconds", "it must still go on"),
        "share": Threshold(0.2, "ratio", "three readings in two minutes, as NVSentinel's 3 polls"),
    },
)
