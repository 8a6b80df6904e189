"""The kernel lines that one expression tells all about, as data: needle, kind, pattern.

A pattern's groups name the fields of `KernelFact` (pci, pid, name, detail). Order matters: the
first that matches wins. Forms: the NVIDIA driver's printk formats, mm/oom_kill.c,
kernel/hung_task.c, pcie/hotplug and pcie/aer.c, the NIC, block and file-system drivers.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "xid",
    "sxid",
    "fallen_off_bus",
    "gpu_reset",
    "init_failed",
    "driver_load",
    "driver_unload",
    "api_mismatch",
    "nvlink",
    "fabric",
    "oom_kill",
    "hung_task",
    "segfault",
    "link_down",
    "link_up",
    "port_module",
    "pcie_link_down",
    "aer",
    "machine_check",
    "fs_error",
    "io_error",
    "nfs_stalled",
    "nfs_recovered",
]

ADDRESS = r"(?P<pci>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_PID = r"(?P<pid>\d{1,10})"
# A disk's "SATA link down" is an empty slot and no network device.
_DEVICE = r"(?P<name>(?!SATA\b)[\w.\-@]{1,32})"
_LINK = rf"(?:^|[\s:]){_DEVICE}\)?:? (?:NIC )?[Ll]ink "

PATTERNS: tuple[tuple[str, Kind, str], ...] = (
    ("fallen off the bus", "fallen_off_bus", rf"NVRM:(?:.*?{ADDRESS})?.*?fallen off the bus"),
    ("API mismatch", "api_mismatch", r"API mismatch: (?P<detail>.*)"),
    ("NVRM: loading", "driver_load", r"NVRM: loading NVIDIA .*?(?P<detail>\d{3,}\.\d[\d.]*)"),
    ("Unload", "driver_unload", r"(?P<detail>nvidia-(?:uvm|modeset): Unload.*)"),
    (
        "RmInitAdapter failed",
        "init_failed",
        rf"NVRM:(?: GPU {ADDRESS}:)?.*?(?P<detail>RmInitAdapter failed.*)",
    ),
    ("reset", "gpu_reset", rf"(?:NVRM: .*?|nvidia ){ADDRESS}\b.*?(?P<detail>\breset.*)"),
    ("after FLR", "gpu_reset", rf"nvidia {ADDRESS}: (?P<detail>not ready .*)"),
    (
        "abric",
        "fabric",
        r"(?:[Ff]abric ?[Mm]anager|NVRM: .*[Ff]abric).*?"
        r"(?P<detail>\b(?:[Ff]ail|[Ee]rror|not |[Tt]imed out|died).*)",
    ),
    (
        "link",
        "nvlink",
        rf"(?:NVRM|nvidia-nvlink): (?:GPU {ADDRESS}: )?.*?[Nn][Vv][Ll]ink.*?"
        r"(?P<detail>\b(?:[Ff]ail|[Ee]rror|[Ff]ault|shutdown|down\b).*)",
    ),
    (
        "oom-kill:",
        "oom_kill",
        rf"oom-kill:(?P<detail>constraint=\w+.*?),task=(?P<name>.*),pid={_PID}",
    ),
    (
        "ill",
        "oom_kill",
        rf"\bKill(?:ed)? process {_PID} "
        r"\((?P<name>.*?)\)(?P<detail>(?:,| total-vm| score).*|\W*$)",
    ),
    (
        "blocked for more",
        "hung_task",
        rf"task (?P<name>.{{1,32}}):{_PID} (?P<detail>blocked for more than \d+ seconds)",
    ),
    ("segfault at", "segfault", rf"(?P<name>[^\[]{{1,32}})\[{_PID}\]: (?P<detail>segfault at.*)"),
    (
        "general protection",
        "segfault",
        rf"traps: (?P<name>[^\[]{{1,32}})\[{_PID}\] (?P<detail>general protection.*)",
    ),
    (
        "Slot(",
        "pcie_link_down",
        rf"{ADDRESS}: .*?(?P<detail>Slot\([^)]*\): (?:Link Down|Card not present))",
    ),
    ("Port module event", "port_module", rf"{ADDRESS}:? (?P<detail>Port module event.*)"),
    ("ink", "link_down", _LINK + r"(?:is |status definitely )?(?:[Dd]own|DOWN)\b"),
    ("ink", "link_up", _LINK + r"(?:(?:is |status definitely )?(?:[Uu]p|UP)\b|becomes ready)"),
    (
        "[Hardware Error]",
        "machine_check",
        r"\[Hardware Error\]: (?P<detail>(?:Machine check|CPU \d+: Machine).*)",
    ),
    ("-fs error", "fs_error", rf"\w+-fs error \(device {_DEVICE}\):? ?(?P<detail>.*)"),
    ("BTRFS error", "fs_error", rf"BTRFS error \(device {_DEVICE}.*?\):? ?(?P<detail>.*)"),
    (
        "XFS (",
        "fs_error",
        rf"XFS \({_DEVICE}\): (?P<detail>.*(?:error|[Cc]orrupt|[Ss]hut(?:ting)? ?down).*)",
    ),
    ("/O error", "io_error", rf"(?P<detail>I/O error,? (?:on )?dev {_DEVICE}.*)"),
    ("medium error", "io_error", rf"(?P<detail>critical medium error, dev {_DEVICE}.*)"),
    ("nvme", "io_error", rf"nvme {_DEVICE}: (?P<detail>I/O .*timeout.*|controller is down.*)"),
    ("nfs: server", "nfs_stalled", r"nfs: server (?P<name>\S+) (?P<detail>not responding.*)"),
    ("nfs: server", "nfs_recovered", r"nfs: server (?P<name>\S+) (?P<detail>OK)"),
)
