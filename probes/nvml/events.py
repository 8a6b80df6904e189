"""XID events: the wait for them is the pause between two reads, so that one comes at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from ctypes import c_void_p, cast
from typing import Any, NamedTuple

from gpudiag.probes.nvml.client import TIMEOUT, UNKNOWN
from gpudiag.probes.nvml.device import Identity

_XID = 8
_NO_INSTANCE = 0xFFFFFFFF


class XidEvent(NamedTuple):
    """One XID; `instance` is the MIG GPU instance, None for the whole GPU."""

    identity: Identity
    xid: int
    instance: int | None


class Xids:
    """An event set over the GPUs that take part; without any (or on an error) it only sleeps."""

    def __init__(self, nvml: Any, devices: Sequence[tuple[Identity, Any]]) -> None:
        self._nvml = nvml
        self._by_handle = {_address(handle): identity for identity, handle in devices}
        self._set = self._register([handle for _, handle in devices])

    def wait(self, seconds: float) -> Iterator[XidEvent]:
        """The events of the next `seconds`, each as it comes."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._set is None:
                time.sleep(left)
                return
            try:
                data = self._nvml.nvmlEventSetWait_v2(self._set, max(1, int(left * 1000)))
            except self._nvml.NVMLError as failure:
                # A lost GPU makes every wait fail at once; the kernel log has its XIDs.
                if failure.value != TIMEOUT:
                    self.close()
                continue
            identity = self._by_handle.get(_address(data.device))
            if data.eventType == _XID and identity is not None:
                part = None if data.gpuInstanceId == _NO_INSTANCE else int(data.gpuInstanceId)
                yield XidEvent(identity, int(data.eventData), part)

    def close(self) -> None:
        """Give the event set back."""
        lent, self._set = self._set, None
        if lent is not None:
            try:
                self._nvml.nvmlEventSetFree(lent)
            except self._nvml.NVMLError:
                return

    def _register(self, handles: Sequence[Any]) -> Any | None:
        nvml = self._nvml
        try:
            lent = nvml.nvmlEventSetCreate()
        except nvml.NVMLError:
            return None
        taken = 0
        for handle in handles:
            try:
                nvml.nvmlDeviceRegisterEvents(handle, _XID, lent)
                taken += 1
            except nvml.NVMLError as failure:
                # nvml.h: after UNKNOWN the set must be freed; after NOT_SUPPORTED it is usable.
                if failure.value == UNKNOWN:
                    nvml.nvmlEventSetFree(lent)
                    return self._register([h for h in handles if h is not handle])
        return lent if taken else None


def _address(handle: Any) -> int | None:
    return cast(handle, c_void_p).value
