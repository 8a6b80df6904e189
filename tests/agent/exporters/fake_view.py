"""A made-up node: eight GPUs, GPU 3 too hot, one folded finding, one resolved, one blind spot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import numpy as np

from gpudiag.agent.exporters.view import AgentInfo, Floats, Missing, Reading
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import Evidence, Rival, Suggestion, subject
from gpudiag.agent.scheduler import ProbeStatus
from gpudiag.probes import Event, Labels, labels

NOW = 1_764_594_000.0
INFO = AgentInfo("n1", "llama", "0.1.0", "dry-run", NOW - 3600, revision="abc")
HOT = "GPU-00000003-dead-beef"


def uuid(index: int) -> str:
    return HOT if index == 3 else f"GPU-{index:08d}-aaaa-bbbb"


def gpu_readings(index: int, now: float) -> Iterable[Reading]:
    hot = index == 3
    gpu = {"uuid": uuid(index), "gpu": str(index)}
    plain = {
        "gpudiag_gpu_memory_total_bytes": 85899345920.0,
        "gpudiag_gpu_memory_used_bytes": 61203283968.0 + index * 2**28,
        "gpudiag_gpu_utilization_ratio": 0.97,
        "gpudiag_gpu_temperature_margin_celsius": -1.0 if hot else 24.0,
        "gpudiag_gpu_power_watts": 402.5 if hot else 655.0,
        "gpudiag_gpu_power_limit_watts": 700.0,
        "gpudiag_gpu_energy_joules_total": 123456.5,
        "gpudiag_gpu_pcie_link_generation": 5.0,
        "gpudiag_gpu_pcie_link_generation_max": 5.0,
        "gpudiag_gpu_pcie_link_width": 16.0,
        "gpudiag_gpu_pcie_link_width_max": 16.0,
        "gpudiag_gpu_row_remap_failed": 0.0,
    }
    for metric, value in plain.items():
        yield metric, labels(**gpu), now, value
    info = labels(**gpu, name="NVIDIA H100 80GB HBM3", driver="570.86.15", pci_bus_id="0000:3b:00")
    yield "gpudiag_gpu_info", info, now, 1.0
    core = labels(**gpu, sensor="core")
    yield "gpudiag_gpu_temperature_celsius", core, now, 88.0 if hot else 63.0
    yield "gpudiag_gpu_clock_hertz", labels(**gpu, clock="sm"), now, 1.155e9 if hot else 1.98e9
    yield "gpudiag_gpu_clock_max_hertz", labels(**gpu, clock="sm"), now, 1.98e9
    yield "gpudiag_gpu_throttle_active", labels(**gpu, reason="hw_thermal"), now, float(hot)
    yield "gpudiag_gpu_throttle_active", labels(**gpu, reason="idle"), now, 0.0
    for link in range(4):
        up = labels(**gpu, link=str(link))
        yield "gpudiag_gpu_nvlink_up", up, now, 0.0 if index == 5 and link == 2 else 1.0
    if hot:
        yield "gpudiag_gpu_xid_errors_total", labels(**gpu, xid="63"), now, 2.0


def host_readings(now: float) -> Iterable[Reading]:
    yield "gpudiag_host_cpu_utilization_ratio", (), now, 0.31
    yield "gpudiag_host_load1", (), now, 12.5
    yield "gpudiag_host_memory_total_bytes", (), now, 2**41 * 1.0
    yield "gpudiag_host_memory_available_bytes", (), now, 2**40 * 1.0
    yield "gpudiag_host_pressure_ratio", labels(resource="cpu", kind="some"), now, 0.02
    disk = labels(mountpoint="/scratch")
    yield "gpudiag_filesystem_size_bytes", disk, now, 1e12
    yield "gpudiag_filesystem_available_bytes", disk, now, 3e10
    yield "gpudiag_findings_total", labels(symptom="thermal-throttle", cause="x"), now, 1.0
    server = {"server": "s", "model": "m", "engine": "vllm"}
    for bound, count in (("0.1", 4.0), ("+Inf", 6.0), ("0.5", 5.0)):
        yield "gpudiag_serving_ttft_seconds_bucket", labels(**server, le=bound), now, count
    yield "gpudiag_serving_ttft_seconds_sum", labels(**server), now, 3.25
    yield "gpudiag_serving_ttft_seconds_count", labels(**server), now, 6.0


def throttled(now: float) -> Finding:
    gpu = {"uuid": HOT, "gpu": "3"}
    return Finding(
        symptom="thermal-throttle",
        subject=subject(uuid=HOT),
        cause="thermal-throttle",
        confidence=0.93,
        severity="warning",
        state="firing",
        since=now - 480,
        raised_at=now - 420,
        summary="GPU 3 is too hot and runs at 58 % of the clock of its peers.",
        evidence=(
            Evidence(
                "gpudiag_gpu_clock_hertz", 1.155e9, "hertz", ">= 1.9 GHz", {**gpu, "clock": "sm"}
            ),
            Evidence("gpudiag_gpu_temperature_margin_celsius", -1.0, "celsius", "> 5", gpu),
            Evidence("kmsg", "NVRM: Xid <script>alert(1)</script>", "", "no such line"),
        ),
        rivals=(Rival("power-brake", "no power brake reason was active"),),
        actions=(
            Suggestion("drain", "Check fans and airflow of the slot; move the job meanwhile."),
        ),
    )


def findings(now: float) -> list[Finding]:
    hot = throttled(now)
    xid = Finding(
        symptom="gpu-xid",
        subject=subject(uuid=uuid(5)),
        cause="undetermined",
        confidence=0.6,
        severity="critical",
        state="firing",
        since=now - 300,
        summary="GPU 5 reported XID 999, an unknown code.",
        missing=("the kernel log of the minute before",),
    )
    replace = msgspec.structs.replace
    folded = replace(
        hot,
        symptom="straggler",
        subject=subject(job="llama", rank="3"),
        explained_by=hot.id,
        summary="Rank 3 is slower than its peers.",
        evidence=(),
    )
    resolved = replace(
        xid,
        symptom="cpu-pressure",
        subject=subject(node="n1"),
        state="resolved",
        resolved_at=now - 60,
        reason="cleared",
        summary="Tasks waited for a CPU.",
    )
    return [resolved, hot, folded, xid]


@dataclass
class FakeView:
    """A view whose content a test sets; it counts how often it is asked."""

    time: float = NOW
    readings: list[Reading] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)
    happened: list[Event] = field(default_factory=list)
    blind: list[Missing] = field(default_factory=list)
    states: list[ProbeStatus] = field(default_factory=list)
    info: AgentInfo = INFO
    version: int = 1
    asked: int = 0

    def now(self) -> float:
        return self.time

    def generation(self) -> int:
        return self.version

    def samples(self) -> list[Reading]:
        self.asked += 1
        return list(self.readings)

    def history(self, metric: str, seconds: float, labels: Labels) -> tuple[Floats, Floats]:
        last = [
            value for name, pairs, _, value in self.readings if (name, pairs) == (metric, labels)
        ]
        times = np.arange(self.time - min(seconds, 900.0), self.time + 1, 5.0)
        if not last:
            return times[:0], times[:0]
        early = 1.98e9 if "clock" in metric else last[0]
        return times, np.where(times < self.time - 480, early, last[0])

    def events(self, seconds: float, source: str, kind: str) -> list[Event]:
        return [
            event
            for event in self.happened
            if event.time >= self.time - seconds
            and source in ("", event.source)
            and kind in ("", event.type)
        ]

    def past(self, since: float, until: float) -> list[Finding]:
        return [f for f in self.found if f.fired_within(since, until)]

    def findings(self) -> list[Finding]:
        return list(self.found)

    def unknown(self) -> list[Missing]:
        return list(self.blind)

    def probes(self) -> list[ProbeStatus]:
        return list(self.states)


def incident() -> FakeView:
    """The node with its incident."""
    view = FakeView(
        found=findings(NOW), blind=[("fabric-manager-down", ("gpudiag_gpu_fabric_state",))]
    )
    view.readings = [r for index in range(8) for r in gpu_readings(index, NOW)]
    view.readings += host_readings(NOW)
    view.states = [
        ProbeStatus("nvml", True, "", NOW - 1, 0.012),
        ProbeStatus(
            "kmsg", False, "may not read /dev/kmsg: run as root or add CAP_SYSLOG", None, 0.0
        ),
        ProbeStatus(
            "infiniband", False, "no InfiniBand on this machine", None, 0.0, available=False
        ),
    ]
    return view


def bare() -> FakeView:
    """A node without GPUs on which nothing is wrong."""
    host = ProbeStatus("host", True, "", NOW - 2, 0.003)
    return FakeView(readings=list(host_readings(NOW)), states=[host])
