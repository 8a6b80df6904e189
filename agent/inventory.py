"""Which GPUs and GPU processes there are, learned from what passes by, for the probes that ask."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.serving_load import ServingLoad
from gpudiag.agent.window import Window
from gpudiag.probes import Event, Labels, Probe, Record, Sample, labels
from gpudiag.probes.kernel_lines import normalise_pci
from gpudiag.probes.processes import Role, Watched

FORGET_SECONDS = 60.0
"""A process that the driver has not named for so long does not hold a GPU any more."""

SETTLE_SECONDS = 10.0
"""How long the kernel log waits for the driver to say which GPU sits at which bus address."""

_SERVERS = ("vllm", "sglang", "triton", "text-generation", "trtllm", "dynamo", "ray::")


class Inventory:
    """An observer of batches. Its answers are plain dictionaries: any thread may ask."""

    def __init__(
        self,
        expected_gpus: int = 0,
        proc: Path = Path("/proc"),
        monotonic: Callable[[], float] = time.monotonic,
        patience: float = SETTLE_SECONDS,
    ) -> None:
        self.expected_gpus = expected_gpus
        self.load = ServingLoad(monotonic)
        self._proc = proc
        self._monotonic = monotonic
        self._patience = monotonic() + patience
        self._gpus: dict[str, Labels] = {}
        self._processes: dict[int, tuple[float, str]] = {}
        self._gpu_of: dict[int, str] = {}
        self._memory: dict[int, dict[str, tuple[float, float]]] = {}
        self._ranks: dict[int, tuple[str, str]] = {}
        self._now = 0.0

    def observe(self, samples: Sequence[Sample], _events: Sequence[Event]) -> None:
        """Take note of GPUs and of the processes on them."""
        for metric, pairs, at, value in samples:
            if metric == "gpudiag_gpu_process_memory_bytes":
                of = dict(pairs)
                self._now = at
                self._processes[int(of["pid"])] = (at, of.get("process", ""))
                self._gpu_of[int(of["pid"])] = of.get("uuid", "")
                self._memory.setdefault(int(of["pid"]), {})[of.get("uuid", "")] = (at, value)
            elif metric == "gpudiag_train_info":
                self._take_rank(dict(pairs), value)
            elif metric == "gpudiag_gpu_info":
                of = dict(pairs)
                pci = normalise_pci(of.get("pci_bus_id", ""))
                self._gpus[pci] = labels(uuid=of["uuid"], gpu=of.get("gpu", ""))

    def on_findings(self, _now: float, _changed: Sequence[Finding], window: Window) -> None:
        """Findings say nothing of what there is; the window says how busy servers are."""
        self.load.look(window)

    def settled(self) -> bool:
        """Whether the GPUs are known, or have had the time to be."""
        return bool(self._gpus) or self._monotonic() >= self._patience

    def identify(self, pci: str) -> Labels | None:
        """`uuid` and `gpu` of the GPU at a bus id such as `0000:3b:00.0`; None while unknown."""
        return self._gpus.get(pci)

    def gpu_of(self, pid: int) -> str:
        """The GPU that the driver sees the process on; "" where it sees none."""
        return self._gpu_of.get(pid, "") if pid in self._processes else ""

    def memory_of(self, pid: int, uuid: str) -> tuple[float, float] | None:
        """When the driver last said so, and the bytes that the process holds on that GPU."""
        return self._memory.get(pid, {}).get(uuid)

    def watched(self) -> list[Watched]:
        """The processes on the GPUs, the ranks of training jobs, and the data loaders of both."""
        return list(self._each_watched())

    def pids(self) -> list[int]:
        """Process ids of those on the GPUs."""
        return [pid for pid, _ in self._present()]

    def _present(self) -> list[tuple[int, str]]:
        known = list(self._processes.items())
        for pid, (seen, _) in known:
            if self._now - seen > FORGET_SECONDS:
                self._processes.pop(pid, None)
                self._gpu_of.pop(pid, None)
                self._memory.pop(pid, None)
        return [(pid, name) for pid, (seen, name) in known if self._now - seen <= FORGET_SECONDS]

    def _each_watched(self) -> Iterator[Watched]:
        ranks = dict(self._ranks)
        roles = {pid: _role(name) for pid, name in self._present()}
        roles.update(dict.fromkeys(ranks, "trainer"))
        for pid, role in roles.items():
            job, rank = ranks.get(pid, ("", ""))
            yield Watched(pid, role, job, rank)
            if role == "trainer":
                children = (c for c in self._children(pid) if c not in roles)
                yield from (Watched(child, "loader", job, rank) for child in children)

    def _take_rank(self, of: dict[str, str], value: float) -> None:
        if "pid" not in of:
            return
        pid = int(of["pid"])
        # A stale marker: the process has left its job.
        if value != value:
            self._ranks.pop(pid, None)
        else:
            self._ranks[pid] = of["job"], of["rank"]

    def _children(self, pid: int) -> list[int]:
        try:
            text = (self._proc / f"{pid}/task/{pid}/children").read_text()
        except OSError:
            return []
        return [int(word) for word in text.split()]


def _role(name: str) -> Role:
    lower = name.lower()
    return "server" if any(known in lower for known in _SERVERS) else "trainer"


class AfterGpus:
    """A probe that speaks of bus addresses: it is not read before they can be told apart.

    Else an XID found in the log at start would be raised for an address first, and again for the
    GPU a second later.
    """

    def __init__(self, probe: Probe, inventory: Inventory) -> None:
        self.name, self.metrics, self.cadence = probe.name, probe.metrics, probe.cadence
        self._probe = probe
        self._inventory = inventory

    def read(self) -> Iterable[Record]:
        """What the probe reads, once the GPUs are known."""
        return self._probe.read() if self._inventory.settled() else ()

    def close(self) -> None:
        self._probe.close()
