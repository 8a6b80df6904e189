"""The InfiniBand and RoCE ports: link state, times the link went down, errors by counter.

A probe of its own: each counter is a question to the card's firmware, which may take its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gpudiag.probes import Record, Sample, labels
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.kept_file import KeptFile

# Counters of the port (IBA 16.1.3.5) and of the mlx5 driver that mean trouble. VL15_dropped,
# port_rcv_switch_relay_errors and port_xmit_wait also grow on healthy fabrics.
ERRORS = (
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/port_rcv_errors",
    "counters/port_rcv_remote_physical_errors",
    "counters/port_rcv_constraint_errors",
    "counters/port_xmit_constraint_errors",
    "counters/port_xmit_discards",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/packet_seq_err",
    "hw_counters/out_of_sequence",
    "hw_counters/rnr_nak_retry_err",
)
DOWNED = "counters/link_downed"
ACTIVE, DISABLED = "4", "3"


def port_up(state: str, physical: str) -> float | None:
    """1 while the port is active, else 0; None where it is disabled on purpose or does not say."""
    number = state.partition(":")[0].strip()
    if not number.isdigit() or physical.partition(":")[0].strip() == DISABLED:
        return None
    return 1.0 if number == ACTIVE else 0.0


class _Port:
    def __init__(self, folder: Path) -> None:
        names = {"device": folder.parent.parent.name, "port": folder.name}
        self._labels = labels(**names)
        self._state = KeptFile(folder / "state")
        self._physical = KeptFile(folder / "phys_state")
        self._downed = KeptFile(folder / DOWNED)
        self._errors = [
            (labels(**names, kind=path.rpartition("/")[2]), KeptFile(folder / path))
            for path in ERRORS
        ]

    def read(self, now: float) -> Iterator[Sample]:
        up = port_up(self._state.read() or "", self._physical.read() or "")
        if up is not None:
            yield Sample("gpudiag_ib_port_up", self._labels, now, up)
        downed = self._downed.number()
        if downed is not None:
            yield Sample("gpudiag_ib_link_downed_total", self._labels, now, downed)
        for pairs, file in self._errors:
            count = file.number()
            if count is not None:
                yield Sample("gpudiag_ib_errors_total", pairs, now, count)

    def close(self) -> None:
        for file in (self._state, self._physical, self._downed, *(f for _, f in self._errors)):
            file.close()


class Infiniband:
    """The probe over /sys/class/infiniband."""

    name = "infiniband"
    cadence = 5.0
    metrics = frozenset(
        {"gpudiag_ib_port_up", "gpudiag_ib_link_downed_total", "gpudiag_ib_errors_total"}
    )

    def __init__(self, sys: Path = Path("/sys"), *, clock: Callable[[], float] = time.time) -> None:
        self._folder, self._clock = sys / "class/infiniband", clock
        self._ports: dict[Path, _Port] = {}

    def read(self) -> Iterator[Record]:
        """All ports that are here now."""
        here = set(self._folder.glob("*/ports/*"))
        for folder in self._ports.keys() - here:
            self._ports.pop(folder).close()
        if not here:
            raise Unavailable(f"no InfiniBand port under {self._folder}: nothing to do without one")
        for folder in sorted(here):
            port = self._ports.get(folder) or self._ports.setdefault(folder, _Port(folder))
            yield from port.read(self._clock())

    def close(self) -> None:
        for port in self._ports.values():
            port.close()
