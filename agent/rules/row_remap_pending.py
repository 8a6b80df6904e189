"""A remapped memory row waits for a reset of the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules._gpus import addressed, gpu, title
from gpudiag.agent.rules.contract import (
    Diagnosis,
    Evidence,
    Healthy,
    Limits,
    Rival,
    Rule,
    Suggestion,
    Verdict,
)
from gpudiag.agent.window import Window

PENDING = "gpudiag_gpu_row_remap_pending"
FAILED = "gpudiag_gpu_row_remap_failed"


def check(window: Window, _: Limits) -> Iterator[Verdict]:
    """Judge every GPU whose driver tells of row remapping."""
    for point in window.latest(PENDING):
        uuid = point.labels.get("uuid", "")
        if not point.value:
            yield Healthy(gpu(uuid))
            continue
        failed = window.value(FAILED, uuid=uuid)
        rivals = (Rival("row-remap-failed", "a spare row was found"),) if failed == 0.0 else ()
        yield Diagnosis(
            subject=gpu(uuid),
            cause="row-remap-pending",
            confidence=0.97,
            summary=f"{title(point.labels)} has replaced a bad memory row; the spare takes effect"
            " at the next reset of the GPU.",
            evidence=(Evidence(PENDING, 1.0, expected="0", labels={"uuid": uuid}),),
            rivals=rivals,
            actions=addressed(_ACTIONS, uuid),
        )


_ACTIONS = (
    Suggestion("notify", "Plan a reset at the next break of the job; until then it is safe."),
    Suggestion("drain", "At that break: `nvidia-smi --gpu-reset -i UUID`."),
)

RULE = Rule(check=check)
