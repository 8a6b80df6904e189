"""Out of memory within the first steps: which documented cause the live memory speaks for."""

from __future__ import annotations

from collections import Counter

from gpudiag.agent.analysis.memory import categories, figures
from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.causes import Cause, Rival
from gpudiag.agent.analysis.memory.digest import Device
from gpudiag.agent.analysis.memory.frames import Hint

SYMPTOM = "startup-oom"
FIRST_STEPS = 5
OPTIMIZER_HEAVY = "optimizer-state-heavy"
OTHERS = "memory-held-by-others"
SEQUENCE, BATCH = "sequence-too-long", "batch-too-large"
UNDETERMINED = "undetermined"
# AdamW's two states in float32 are twice their parameters where those are float32 too.
_HEAVY = 1.9


def at_start(device: Device, step: int | None) -> bool:
    """Whether the failure fell into the first steps; the file's own count goes first."""
    done = step if step is not None else device.ooms[-1].step if device.phase else None
    return done is not None and done <= FIRST_STEPS


def cause(device: Device, asked: Asked) -> Cause:
    """Why the last request failed, from what was live then."""
    failed = device.ooms[-1]
    parts: Counter[str] = Counter()
    for hold in device.holds:
        parts[hold.category] += hold.bytes
    largest, most = parts.most_common(1)[0] if parts else ("", 0)
    elsewhere = (asked.capacity or 0) - device.reserved - failed.device_free
    if elsewhere >= failed.size and elsewhere > most:
        return Cause(OTHERS, f"{figures.size(elsewhere)} of the device are not torch's here", ())
    optimizer, weights = parts[categories.OPTIMIZER], parts[categories.PARAMETERS]
    stepping = device.sites[failed.site].hints & Hint.OPTIMIZER
    if stepping and largest == categories.OPTIMIZER and optimizer >= _HEAVY * weights:
        why = f"its states take {figures.size(optimizer)}, the parameters {figures.size(weights)}"
        return Cause(OPTIMIZER_HEAVY, why, (Rival(BATCH, "it failed in the optimizer's step"),))
    rivals = (Rival(SEQUENCE, "possible"), Rival(BATCH, "possible"))
    open_ = rivals if largest == categories.ACTIVATIONS else ()
    missing = ("`gpudiag budget`: what parameters, states and activations should take",)
    return Cause(UNDETERMINED, f"most is {largest or 'unknown'}", open_, missing)
