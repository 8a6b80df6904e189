"""NVML's turns as events: what happened, whose trouble it is, what to do next."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from gpudiag.probes import Event
from gpudiag.probes.catalog import nvml_codes
from gpudiag.probes.nvml.client import UNKNOWN
from gpudiag.probes.reader import Notice

_OWN_TROUBLE = (
    "NVML answers Unknown Error after it had worked: this agent has lost its access to the devices"
    " (a control group that was rewritten, as systemctl daemon-reload does); the GPUs are not at"
    " fault. Where the host's nvidia-smi works, restart the agent's container."
)


def driver_event(time: float, code: int, worked: bool) -> Event:
    """NVML's return code has changed to `code`; `worked` is whether it ever answered."""
    known = nvml_codes().get(code)
    if code == 0:
        line, trouble = "NVML answers again.", "none"
    elif code == UNKNOWN and worked:
        line, trouble = _OWN_TROUBLE, "agent"
    elif known is None:
        line, trouble = f"NVML refuses with code {code}.", "driver"
    else:
        line, trouble = f"NVML: {known.meaning}. {known.todo}", known.trouble
    return Event(time, "agent", line, "nvml_code", {"code": str(code), "trouble": trouble})


def gpu_event(time: float, uuid: str, gpu: str, code: int) -> Event:
    """One GPU has begun or ceased to answer."""
    known = nvml_codes().get(code)
    meaning = f"{known.meaning}. {known.todo}" if known else f"NVML code {code}."
    line = f"GPU {gpu} ({uuid}) answers again." if code == 0 else f"GPU {gpu} ({uuid}): {meaning}"
    return Event(time, "agent", line, "gpu_code", {"uuid": uuid, "gpu": gpu, "code": str(code)})


def reader_event(time: float, notice: Notice, doing: str) -> Event | None:
    """A turn in the life of the child that calls NVML; `doing` is what it said last."""
    verb = "while reading" if doing.startswith("GPU") else "in"
    where = f" {verb} {doing}" if doing else ""
    if notice.what == "wedged":
        line = (
            f"The NVIDIA driver has not answered for {notice.seconds:.1f} s{where}; its series are"
            " absent until it does. Look at the kernel log for XID 119, 120 or 79."
        )
    elif notice.what == "recovered":
        line = f"The NVIDIA driver answers again after {notice.seconds:.1f} s."
    elif notice.status == 0:
        return None
    else:
        how = _signal(-notice.status) if notice.status < 0 else f"exit status {notice.status}"
        line = f"The process that reads NVML ended with {how}{where}; see the agent's log."
    fields = {"uuid": doing} if doing.startswith("GPU") else {}
    return Event(time, "agent", line, f"nvml_{notice.what}", fields)


def xid_event(told: Mapping[str, Any]) -> Event:
    """An XID as the driver reported it, worded as the kernel log words it."""
    fields = {"uuid": told["uuid"], "gpu": told["gpu"], "xid": str(told["xid"])}
    if told["instance"] is not None:
        fields["gpu_instance"] = str(told["instance"])
    # The kernel leaves the function number out: 0000:3b:00, not 0000:3b:00.0.
    bus = str(told["bus"]).rpartition(".")[0]
    return Event(told["time"], "nvml", f"Xid (PCI:{bus}): {told['xid']}", "xid", fields)


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
