"""Which GPUs there are, what to call them, and which bus address is whose: shared by the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from gpudiag.agent.rules.contract import Subject, Suggestion, subject
from gpudiag.agent.window import Window
from gpudiag.probes.kernel_lines import normalise_pci

INFO = "gpudiag_gpu_info"
MEASURED = (
    "gpudiag_gpu_memory_used_bytes",
    "gpudiag_gpu_utilization_ratio",
    "gpudiag_gpu_temperature_celsius",
    "gpudiag_gpu_power_watts",
    "gpudiag_gpu_clock_hertz",
)
"""What every GPU answers while it is there: one of them fresh proves that it is."""

_SHORT = 12


@lru_cache(maxsize=1024)
def gpu(uuid: str) -> Subject:
    """The GPU as a finding's subject."""
    return subject(uuid=uuid)


def title(labels: Mapping[str, str]) -> str:
    """What people call it: `GPU 3 (GPU-ab12cd34...)`, or `GPU 3` where the UUID adds nothing."""
    uuid, index = labels.get("uuid", ""), labels.get("gpu")
    short = uuid if len(uuid) <= _SHORT else f"{uuid[:_SHORT]}…"
    if not index:
        return f"GPU {short}"
    return f"GPU {index}" if short == f"GPU-{index}" else f"GPU {index} ({short})"


def addressed(steps: Iterable[Suggestion], uuid: str) -> tuple[Suggestion, ...]:
    """The suggestions with the GPU's own uuid in their commands, ready to be pasted."""
    return tuple(replace(s, text=s.text.replace("UUID", uuid)) if uuid else s for s in steps)


def known(window: Window) -> dict[str, dict[str, str]]:
    """Every GPU ever seen, silent ones too: its labels by uuid."""
    found: dict[str, dict[str, str]] = {}
    for metric in (*MEASURED, INFO):
        for labels in window.seen(metric):
            uuid = labels.get("uuid")
            if uuid and uuid not in found:
                found[uuid] = labels
    return found


def answering(window: Window) -> set[str]:
    """The GPUs of which something measured is fresh; of one never measured, its info counts."""
    found: set[str] = set()
    measured: set[str | None] = set()
    for metric in MEASURED:
        found.update(p.labels["uuid"] for p in window.latest(metric) if "uuid" in p.labels)
        measured.update(labels.get("uuid") for labels in window.seen(metric))
    for point in window.latest(INFO):
        if "uuid" in point.labels and point.labels["uuid"] not in measured:
            found.add(point.labels["uuid"])
    return found


def by_bus(window: Window) -> dict[tuple[str, str], str]:
    """GPU by (node, bus address); the node is empty where series do not name one."""
    found: dict[tuple[str, str], str] = {}
    for labels in window.seen(INFO):
        address = normalise_pci(labels.get("pci_bus_id", ""))
        # A MIG instance shares the address of the GPU it is cut from, which is the one meant.
        if address and not labels.get("uuid", "").startswith("MIG-"):
            found[labels.get("node", ""), address] = labels["uuid"]
    return found
