"""A memory row could not be remapped: the GPU needs replacing."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.agent.rules._gpus import gpu, title
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

FAILED = "gpudiag_gpu_row_remap_failed"
PENDING = "gpudiag_gpu_row_remap_pending"


def check(window: Window, _: Limits) -> Iterator[Verdict]:
    """Judge every GPU whose driver tells of row remapping."""
    for point in window.latest(FAILED):
        uuid = point.labels.get("uuid", "")
        if not point.value:
            yield Healthy(gpu(uuid))
            continue
        pending = window.value(PENDING, uuid=uuid)
        rivals = (Rival("row-remap-pending", "a reset will not mend it"),) if pending else ()
        yield Diagnosis(
            subject=gpu(uuid),
            cause="row-remap-failed",
            confidence=0.97,
            summary=f"{title(point.labels)} has a bad memory row and no spare left for it; errors"
            " will come back until the GPU is replaced.",
            evidence=(Evidence(FAILED, 1.0, expected="0", labels={"uuid": uuid}),),
            rivals=rivals,
            actions=_ACTIONS,
        )


_ACTIONS = (
    Suggestion("drain", "Move the work off this GPU and keep new work from it."),
    Suggestion("notify", "Run `nvidia-bug-report.sh` and have the GPU replaced."),
)

RULE = Rule(check=check)
