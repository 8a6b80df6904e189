"""The network cards: bytes, errors, drops, link state and flaps, and TCP segments sent again.

Only interfaces with a device under them: bridges, veth pairs and the like repeat their traffic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from gpudiag.probes import Record, Sample, labels
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.kept_file import KeptFile

ADMIN_UP = 0x1
STATES = {"up": 1.0, "down": 0.0, "lowerlayerdown": 0.0, "notpresent": 0.0}
COUNTERS = {
    "gpudiag_network_rx_bytes_total": ("statistics/rx_bytes",),
    "gpudiag_network_tx_bytes_total": ("statistics/tx_bytes",),
    "gpudiag_network_errors_total": ("statistics/rx_errors", "statistics/tx_errors"),
    "gpudiag_network_drops_total": ("statistics/rx_dropped", "statistics/tx_dropped"),
    "gpudiag_network_carrier_changes_total": ("carrier_changes",),
}


def parse_retransmits(snmp: str) -> float | None:
    """TCP segments sent again since boot, from /proc/net/snmp."""
    rows = [line.split() for line in snmp.splitlines() if line.startswith("Tcp:")]
    if len(rows) < 2:
        return None
    value = dict(zip(rows[0], rows[1], strict=False)).get("RetransSegs")
    return None if value is None else float(value)


def link_up(operstate: str, flags: str) -> float | None:
    """1 or 0; None where the interface is switched off on purpose or the driver does not say."""
    try:
        wanted = int(flags, 16) & ADMIN_UP
    except ValueError:
        return None
    return STATES.get(operstate.strip()) if wanted else None


class _Card:
    def __init__(self, folder: Path) -> None:
        self._labels = labels(device=folder.name)
        names = {name for files in COUNTERS.values() for name in files} | {"operstate", "flags"}
        self._files = {name: KeptFile(folder / name) for name in names}

    def read(self, now: float) -> Iterator[Sample]:
        for metric, names in COUNTERS.items():
            values = [self._files[name].number() for name in names]
            known = [value for value in values if value is not None]
            if len(known) == len(values):
                yield Sample(metric, self._labels, now, sum(known))
        up = link_up(self._files["operstate"].read() or "", self._files["flags"].read() or "")
        if up is not None:
            yield Sample("gpudiag_network_up", self._labels, now, up)

    def close(self) -> None:
        for file in self._files.values():
            file.close()


class Network:
    """The probe over /sys/class/net and /proc/net/snmp."""

    name = "network"
    cadence = 5.0
    metrics = frozenset({*COUNTERS, "gpudiag_network_up", "gpudiag_tcp_retransmits_total"})

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clock, self._folder = clock, sys / "class/net"
        self._snmp = KeptFile(proc / "net/snmp")
        self._cards: dict[str, _Card] = {}

    def read(self) -> Iterator[Record]:
        """All cards that are here now."""
        now = self._clock()
        self._find()
        for card in self._cards.values():
            yield from card.read(now)
        retransmits = parse_retransmits(self._snmp.read() or "")
        if retransmits is not None:
            yield Sample("gpudiag_tcp_retransmits_total", (), now, retransmits)
        elif not self._cards:
            raise Unavailable("no network to read: mount /sys and /proc into the container")

    def close(self) -> None:
        for card in self._cards.values():
            card.close()
        self._snmp.close()

    def _find(self) -> None:
        here = {entry.name for entry in self._folder.iterdir()} if self._folder.is_dir() else set()
        for name in self._cards.keys() - here:
            self._cards.pop(name).close()
        for name in sorted(here - self._cards.keys()):
            if (self._folder / name / "device").exists():
                self._cards[name] = _Card(self._folder / name)
