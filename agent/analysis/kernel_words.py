"""What each kind of kernel line means, to which symptom it belongs, and the next step."""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.probes.catalog.records import Severity
from gpudiag.probes.kernel_patterns import Kind


@dataclass(frozen=True, slots=True)
class Words:
    """A kind of fact: the symptom it belongs to, what it means, and the next step."""

    symptom: str
    severity: Severity
    meaning: str
    todo: str
    confidence: float = 0.8


WORDS: dict[Kind, Words] = {
    "sxid": Words(
        "nvlink-errors", "warning", "An NVSwitch reported an error", "Look at the switch's links."
    ),
    "init_failed": Words(
        "gpu-count-low", "critical", "The driver could not start a GPU", "Run `gpudiag doctor`."
    ),
    "api_mismatch": Words(
        "driver-mismatch",
        "critical",
        "The driver's library and kernel module differ",
        "Reload the driver or reboot; in a container, match the image's driver libraries.",
        0.95,
    ),
    "nvlink": Words(
        "nvlink-errors", "warning", "NVLink reported errors", "Run `nvidia-smi nvlink -e`."
    ),
    "fabric": Words(
        "fabric-manager-down",
        "critical",
        "The NVLink fabric is not up",
        "Run `systemctl status nvidia-fabricmanager`.",
    ),
    "oom_kill": Words(
        "host-memory-pressure",
        "critical",
        "The kernel killed a process for lack of host memory",
        "Look at the cgroup's limit and at who grew before: `gpudiag doctor`.",
        0.9,
    ),
    "hung_task": Words(
        "", "warning", "A task waits in the kernel for minutes", "Look at its storage and driver."
    ),
    "segfault": Words(
        "training-interrupted", "warning", "A process crashed", "Look at its core and last lines."
    ),
    "link_down": Words(
        "network-link-flapping", "warning", "A network link went down", "Check cable and port."
    ),
    "port_module": Words(
        "network-link-flapping", "warning", "A port's module changed state", "Check the module."
    ),
    "pcie_link_down": Words(
        "gpu-lost", "critical", "A PCIe slot lost its link", "Drain the node and check the slot."
    ),
    "aer": Words(
        "pcie-degraded", "warning", "PCIe errors were reported", "Run `gpudiag doctor` under load."
    ),
    "machine_check": Words(
        "", "critical", "The processor reported a hardware error", "Run `ras-mc-ctl --errors`."
    ),
    "fs_error": Words("", "critical", "A file system has errors", "Check the disk behind it."),
    "io_error": Words("", "warning", "A disk gives errors", "Run `smartctl -a` on it."),
    "nfs_stalled": Words("", "warning", "A network file system does not answer", "Ask its owner."),
}
CAUSES: dict[Kind, str] = {"segfault": "process-crash"}
"""Where the cause is not called as its symptom is."""
