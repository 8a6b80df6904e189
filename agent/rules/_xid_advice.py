"""What to do about an XID, in words and rungs of the ladder."""

from __future__ import annotations

from gpudiag.agent.rules.contract import Suggestion
from gpudiag.probes.catalog.records import XidAction

ADVICE: dict[XidAction, tuple[Suggestion, ...]] = {
    "none": (),
    "check_app": (
        Suggestion("notify", "Tell the owner of the application; its own log says what it did."),
    ),
    "restart_app": (
        Suggestion("restart", "Restart the application that was hit, from its last checkpoint."),
    ),
    "drain_and_reset": (
        Suggestion("drain", "Move the work off this GPU, then `nvidia-smi --gpu-reset -i UUID`."),
    ),
    "reset_gpu": (
        Suggestion("drain", "Move the work off this GPU, then `nvidia-smi --gpu-reset -i UUID`."),
    ),
    "reboot_node": (
        Suggestion("drain", "Drain the node: no reset reaches this GPU any more."),
        Suggestion("restart", "Reboot the node; if the fault returns, have the GPU inspected."),
    ),
    "restart_vm": (Suggestion("restart", "Restart the virtual machine."),),
    "replace_gpu": (Suggestion("drain", "Take the GPU out of service and have it replaced."),),
    "check_mechanicals": (
        Suggestion("drain", "Drain the node and check seating, power cables and link cables."),
    ),
    "update_software": (
        Suggestion("notify", "Bring the driver and the vGPU software to versions that match."),
    ),
    "contact_support": (
        Suggestion("notify", "Run `nvidia-bug-report.sh` and ask NVIDIA's support."),
    ),
    "follow_154": (
        Suggestion("notify", "Do what the driver asks: `nvidia-smi -q | grep -A1 -i recovery`."),
    ),
    "decode": (
        Suggestion("notify", "Look at the link named in the kernel line: `nvidia-smi nvlink -e`."),
    ),
}

SUSPECT_HARDWARE = Suggestion(
    "drain", "It keeps coming back on this GPU: move the work off and run `dcgmi diag -r 3`."
)

APPLICATION = Suggestion(
    "notify", "Look at the application first (its log, `compute-sanitizer`); the GPU goes on."
)

LASTING: frozenset[XidAction] = frozenset(
    {"reset_gpu", "drain_and_reset", "reboot_node", "replace_gpu", "check_mechanicals"}
)
"""What stays wrong until somebody does it."""
