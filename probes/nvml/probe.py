"""The agent's side of NVML: what the child reads, and what its silence means."""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpudiag.probes import Labels, Record, Sample, labels
from gpudiag.probes.catalog import metrics
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.frames import DOING, Frame
from gpudiag.probes.nvml.client import LIBRARY_NOT_FOUND
from gpudiag.probes.nvml.decode import Decoder, Series, stale
from gpudiag.probes.nvml.told import driver_event, gpu_event, reader_event, xid_event
from gpudiag.probes.nvml.wire import INIT, KEYS, STATUS, VALUES, XID
from gpudiag.probes.reader import Notice, Reader

_PREFIXES = ("gpudiag_gpu_", "gpudiag_gpus", "gpudiag_nvml_", "gpudiag_driver_info")
_NO_LABELS: Labels = ()


@dataclass(frozen=True, slots=True)
class Status:
    """What the child last said: `listed` GPUs, of which `gpus` are (UUID, index, NVML code)."""

    up: bool
    code: int | None
    listed: int = 0
    gpus: tuple[tuple[str, str, int], ...] = ()
    versions: Labels = field(default=())


class Nvml:
    """GPUs by NVML, read by a child each `cadence` seconds; what is not known is absent, never old.

    `expected` is how many GPUs this node should have (0: the most that were ever seen; read it
    back to keep it over a restart). `deadline` is the child's longest silence in seconds before it
    counts as wedged, `start_deadline` that while NVML starts; `backoff` the shortest and longest
    pause between two children. `counts_xids` is off where the kernel log counts them. `kill` ends
    a wedged child, `root` is where /proc and /sys are.
    """

    name = "nvml"

    def __init__(
        self,
        *,
        cadence: float = 1.0,
        expected: int = 0,
        counts_xids: bool = True,
        deadline: float = 5.0,
        start_deadline: float = 30.0,
        backoff: tuple[float, float] = (1.0, 30.0),
        root: Path = Path("/"),
        env: Mapping[str, str] | None = None,
        now: Callable[[], float] = time.time,
        kill: Callable[[int, int], None] = os.kill,
    ) -> None:
        self.cadence, self.expected = cadence, expected
        self._counts_xids = counts_xids
        self._now, self._root = now, root
        self._reader = Reader(
            self.name,
            self._argv,
            env=env,
            # A child that rests between two reads is not silent.
            deadline=max(deadline, 3 * cadence),
            start_deadline=start_deadline,
            backoff=backoff,
            kill=kill,
        )
        self._decoder = Decoder()
        self._status: Status | None = None
        self._worked = False
        self._doing = ""
        self._seen: dict[str, str] = {}
        self._node_series: set[Series] = set()
        self._xids: Counter[Labels] = Counter()

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset(name for name in metrics() if name.startswith(_PREFIXES))

    @property
    def pid(self) -> int | None:
        """The child's process id, for the agent's own account; None between children."""
        return self._reader.pid

    def read(self) -> Iterable[Record]:
        frames, notices = self._reader.poll()
        out: list[Record] = []
        for frame in frames:
            self._take(frame, out)
        for notice in notices:
            self._turn(notice, out)
        status = self._status
        if status and status.code == LIBRARY_NOT_FOUND and not self.expected:
            raise Unavailable("no NVIDIA driver here: libnvidia-ml.so.1 is not found")
        out += self._node_now()
        return out

    def close(self) -> None:
        self._reader.close()

    def _argv(self) -> list[str]:
        # -P: a file called pynvml.py where the agent was started must not be loaded.
        child = [sys.executable, "-P", "-m", "gpudiag.probes.nvml"]
        return [*child, str(self.cadence), str(self.expected), str(self._root)]

    def _take(self, frame: Frame, out: list[Record]) -> None:
        if frame.kind == VALUES:
            out += self._decoder.values(frame.payload)
        elif frame.kind == DOING:
            self._doing = frame.payload.decode()
            if self._doing == INIT:
                self._decoder.begin()
        elif frame.kind == KEYS:
            out += stale(self._decoder.keys(json.loads(frame.payload)), self._now())
        elif frame.kind == STATUS:
            told = json.loads(frame.payload)
            gpus = tuple((uuid, gpu, code) for uuid, gpu, code in told["gpus"])
            versions = labels(**told["versions"])
            self._settle(Status(told["up"], told["code"], told["listed"], gpus, versions), out)
        elif frame.kind == XID:
            told = json.loads(frame.payload)
            of = labels(uuid=told["uuid"], gpu=told["gpu"], xid=str(told["xid"]))
            if self._counts_xids:
                self._xids[of] += 1
            out.append(xid_event(told))

    def _settle(self, status: Status, out: list[Record]) -> None:
        now, before, self._status = self._now(), self._status, status
        out += stale(self._decoder.settle(), now)
        if status.code is not None and status.code != (before.code if before else 0):
            out.append(driver_event(now, status.code, self._worked))
        if not status.up:
            out += stale(self._decoder.drop(), now)
            return
        self._worked = True
        self.expected = max(self.expected, status.listed)
        self._seen.update((uuid, gpu) for uuid, gpu, _ in status.gpus)
        codes = {uuid: code for uuid, _, code in before.gpus} if before else {}
        out += [
            gpu_event(now, uuid, gpu, code)
            for uuid, gpu, code in status.gpus
            if code != codes.get(uuid, 0)
        ]

    def _turn(self, notice: Notice, out: list[Record]) -> None:
        now = self._now()
        event = reader_event(now, notice, self._doing)
        if event is not None:
            out.append(event)
        if notice.what == "wedged":
            out += stale(self._decoder.all(), now)
        elif notice.what == "ended":
            out += stale(self._decoder.drop(), now)
            if self._status is None or self._status.up:
                self._status = Status(up=False, code=None)

    def _node_now(self) -> list[Sample]:
        now = self._now()
        samples = self._node(now)
        series = {(sample.metric, sample.labels) for sample in samples}
        samples += stale(self._node_series - series, now)
        self._node_series = series
        return samples

    def _node(self, now: float) -> list[Sample]:
        """What is true of the node now, as far as the child has said it."""
        told: dict[str, float] = {}
        more: list[Sample] = []
        if self._reader.wedged:
            told["gpudiag_nvml_wedged"] = 1.0
        elif self._status:
            told["gpudiag_nvml_wedged"] = 0.0
            told["gpudiag_nvml_up"] = float(self._status.up)
            if self._status.code is not None:
                told["gpudiag_nvml_return_code"] = float(self._status.code)
            if self._status.versions:
                more.append(Sample("gpudiag_driver_info", self._status.versions, now, 1.0))
        if self._status and self._status.up and not self._reader.wedged:
            told["gpudiag_gpus"] = float(sum(code == 0 for _, _, code in self._status.gpus))
            more += self._missing(self._status, now)
        if self.expected:
            told["gpudiag_gpus_expected"] = float(self.expected)
        more += [Sample("gpudiag_gpu_xid_errors_total", of, now, n) for of, n in self._xids.items()]
        return [Sample(name, _NO_LABELS, now, value) for name, value in told.items()] + more

    def _missing(self, status: Status, now: float) -> list[Sample]:
        """GPUs that were seen once and are no longer listed."""
        gone = self._seen.keys() - {uuid for uuid, _, _ in status.gpus}
        return [
            Sample("gpudiag_gpu_lost", labels(uuid=uuid, gpu=self._seen[uuid]), now, 1.0)
            for uuid in sorted(gone)
        ]
