"""The GPU slows itself down because it is hot."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules._gpus import addressed, gpu, title
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

TEMPERATURE = "gpudiag_gpu_temperature_celsius"
MARGIN = "gpudiag_gpu_temperature_margin_celsius"
REASONS = ("hw_thermal", "sw_thermal")

# Slowdown begins 2 to 3 degrees before the limit on Hopper and Blackwell boards.
NEAR_LIMIT = 3.0


def check(window: Window, limits: Limits) -> Iterator[Verdict]:
    """Judge every GPU that tells whether heat slows it; heat alone is not the symptom."""
    worst: dict[str, Share] = {}
    for share in shares(window, REASONS, limits["span"], limits["recent"]):
        uuid = share.labels.get("uuid", "")
        if uuid not in worst or share.weight > worst[uuid].weight:
            worst[uuid] = share
    hot = {uuid for uuid, share in worst.items() if share.lasts(limits)}
    for uuid, share in worst.items():
        if uuid in hot:
            yield _diagnosis(window, limits, share, len(hot), len(worst))
        else:
            yield Healthy(gpu(uuid))


def _diagnosis(window: Window, limits: Limits, share: Share, hot: int, all_: int) -> Diagnosis:
    uuid = share.labels["uuid"]
    summary = (
        f"{title(share.labels)} has spent {share.words} thermally throttled"
        f"{_heat_words(window, uuid)}{clock_words(window, uuid)}."
    )
    if hot > 1:
        summary += f" {hot} of {all_} GPUs throttle: look at the room and the node's fans first."
    return Diagnosis(
        subject=gpu(uuid),
        cause="thermal-throttle",
        confidence=_confidence(window, share),
        summary=summary,
        evidence=(
            Evidence(
                ACTIVE,
                round(max(share.ratio, share.spread), 3),
                "ratio",
                f"below {limits['share']:g}",
                {"uuid": uuid, "reason": share.reason},
            ),
            *_heat_evidence(window, uuid),
            *clock_evidence(window, uuid),
        ),
        rivals=_rivals(window, uuid),
        actions=addressed(_ACTIONS, uuid),
        since=share.since,
    )


_ACTIONS = (
    Suggestion("notify", "Check inlet air, fans and blanking panels of the node; look at peers."),
    Suggestion("degrade", "Lower the power limit: `nvidia-smi -i UUID -pl WATTS`; undo likewise."),
    Suggestion("drain", "Move the work to another node if it lasts; it slows every rank."),
)


def _heat_words(window: Window, uuid: str) -> str:
    core = window.value(TEMPERATURE, uuid=uuid, sensor="core")
    return "" if core is None else f" at {core:.0f} °C"


def _heat_evidence(window: Window, uuid: str) -> list[Evidence]:
    found = [
        Evidence(TEMPERATURE, point.value, "celsius", labels=point.labels)
        for point in window.latest(TEMPERATURE, uuid=uuid)
    ]
    margin = window.value(MARGIN, uuid=uuid)
    if margin is not None:
        expected = f"above {NEAR_LIMIT:g}"
        found.append(Evidence(MARGIN, margin, "celsius", expected, {"uuid": uuid}))
    return found


def _confidence(window: Window, share: Share) -> float:
    uuid = share.labels["uuid"]
    margin = window.value(MARGIN, uuid=uuid)
    sure = 0.9 if share.reason == "hw_thermal" else 0.8
    if margin is not None:
        sure += 0.07 if margin <= NEAR_LIMIT else -0.1
    return sure


def _rivals(window: Window, uuid: str) -> tuple[Rival, ...]:
    brake = window.value(ACTIVE, uuid=uuid, reason="power_brake")
    cap = window.value(ACTIVE, uuid=uuid, reason="power_cap")
    found = [Rival("power-brake", "its flag is not set")] if brake == 0.0 else []
    if cap:
        found.append(
            Rival("power-cap", "is normal at full load; the thermal flag is set beside it")
        )
    return tuple(found)


RULE = Rule(
    check=check,
    reads=READS,
    hold=45.0,
    clear=120.0,
    thresholds={
        "span": Threshold(120.0, "seconds", "long enough that a blip of some seconds is no share"),
        "spread": Threshold(0.15, "ratio", "it comes and goes, in both halves of eight minutes"),
        "recent": Threshold(45.0, "seconds", "it must still go on"),
        "share": Threshold(0.3, "ratio", "below it the mean clock falls by a few percent only"),
    },
)
