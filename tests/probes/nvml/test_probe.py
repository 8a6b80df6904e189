"""The probe over healthy drivers of several ages and kinds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudiag.probes.catalog import metrics
from gpudiag.probes.errors import Unavailable
from tests.probes.nvml.conftest import Start
from tests.probes.nvml.watch import Watch
from tests.simdriver.building import build
from tests.simdriver.state import NA, SimDriver, uuid_of


@pytest.mark.parametrize(
    ("metric", "of", "value"),
    [
        ("gpu_memory_total_bytes", {}, 85520809984),
        ("gpu_memory_used_bytes", {}, 64424509440),
        ("gpu_memory_reserved_bytes", {}, 655360000),
        ("gpu_utilization_ratio", {}, 0.97),
        ("gpu_memory_busy_ratio", {}, 0.61),
        ("gpu_temperature_celsius", {"sensor": "core"}, 58),
        ("gpu_temperature_celsius", {"sensor": "memory"}, 71),
        ("gpu_temperature_margin_celsius", {}, 27),
        ("gpu_power_watts", {}, 612),
        ("gpu_power_limit_watts", {}, 700),
        ("gpu_energy_joules_total", {}, 91234567.89),
        ("gpu_clock_hertz", {"clock": "sm"}, 1755e6),
        ("gpu_clock_hertz", {"clock": "memory"}, 2619e6),
        ("gpu_clock_max_hertz", {"clock": "sm"}, 1980e6),
        ("gpu_throttle_active", {"reason": "power_cap"}, 1),
        ("gpu_throttle_active", {"reason": "hw_thermal"}, 0),
        ("gpu_throttle_seconds_total", {"reason": "power_cap"}, 1.2),
        ("gpu_pcie_tx_bytes_total", {}, 52e9),
        ("gpu_pcie_rx_bytes_total", {}, 148e9),
        ("gpu_pcie_link_generation_max", {}, 5),
        ("gpu_pcie_link_width", {}, 16),
        ("gpu_nvlink_tx_bytes_total", {}, 4.1e9 * 1024),
        ("gpu_nvlink_up", {"link": "17"}, 1),
        ("gpu_nvlink_errors_total", {"link": "0", "kind": "crc"}, 0),
        ("gpu_ecc_errors_total", {"kind": "corrected", "scope": "aggregate"}, 2),
        ("gpu_row_remap_pending", {}, 0),
        ("gpu_recovery_action", {}, 0),
        ("gpu_fabric_state", {}, 3),
        ("gpu_sram_ecc_threshold_exceeded", {}, 0),
        ("gpu_lost", {}, 0),
    ],
)
def test_units(healthy: Watch, metric: str, of: dict[str, str], value: float) -> None:
    assert healthy.get(metric, gpu="3", uuid=uuid_of(3), **of) == pytest.approx(value)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("gpu_sm_active_ratio", 0.88),
        ("gpu_sm_occupancy_ratio", 0.36),
        ("gpu_tensor_active_ratio", 0.47),
        ("gpu_memory_bandwidth_ratio", 0.54),
    ],
)
def test_gpm_between_two_reads(healthy: Watch, metric: str, value: float) -> None:
    assert healthy.get(metric, gpu="7") == pytest.approx(value)


def test_node(healthy: Watch) -> None:
    names = ("gpus", "gpus_expected", "nvml_up", "nvml_return_code", "nvml_wedged")
    assert [healthy.get(name) for name in names] == [8, 8, 1, 0, 0]


def test_identity(healthy: Watch) -> None:
    of = {"uuid": uuid_of(1), "pci_bus_id": "0000:3b:00.0", "driver": "570.124.06", "cuda": "12.8"}
    assert healthy.get("gpu_info", name="NVIDIA H100 80GB HBM3", **of) == 1


def test_only_catalogued_metrics_with_their_labels(healthy: Watch) -> None:
    for metric, pairs in healthy.newest:
        assert metric in healthy.probe.metrics
        assert {name for name, _ in pairs} <= set(metrics()[metric].labels), metric


def test_values_follow_the_driver(running: Watch, sim: SimDriver) -> None:
    sim.set(2, temperature=91, reasons=0x48)
    running.until(running.has("gpu_temperature_celsius", 91, gpu="2", sensor="core"))
    assert running.get("gpu_throttle_active", gpu="2", reason="hw_thermal") == 1
    assert running.get("gpu_throttle_active", gpu="2", reason="hw_slowdown") == 1
    assert running.get("gpu_throttle_active", gpu="3", reason="hw_thermal") == 0


def test_gpus_read_at_one_time_share_it(healthy: Watch) -> None:
    name = "gpudiag_gpu_utilization_ratio"
    times = [time for (metric, _), time in healthy.times.items() if metric == name]
    assert len(times) == 8
    assert len(set(times)) <= 2, "eight GPUs, of which some may have been read once more"


def test_reading_the_probe_does_not_read_the_driver(start: Start, sim: SimDriver) -> None:
    watch = start(cadence=30)
    watch.until(watch.has("gpus", 8))
    before = sim.calls()
    for _ in range(200):
        watch.read()
    assert sim.calls() == before


def test_process_memory(running: Watch, sim: SimDriver) -> None:
    sim.process(4, os.getpid(), 7 << 30).process(4, 4000000, 1 << 30)
    name = Path("/proc/self/comm").read_text().strip()
    of = {"gpu": "4", "pid": str(os.getpid()), "process": name}
    running.until(running.has("gpu_process_memory_bytes", 7 << 30, **of))
    assert running.get("gpu_process_memory_bytes", gpu="4", pid="4000000", process="") == 1 << 30
    sim.end_process(4, os.getpid())
    running.until(lambda: running.get("gpu_process_memory_bytes", **of) is None)


def test_unknown_process_memory_is_absent(running: Watch, sim: SimDriver) -> None:
    sim.process(0, 77, NA).process(0, 78, 5)
    running.until(running.has("gpu_process_memory_bytes", 5, pid="78"))
    assert running.get("gpu_process_memory_bytes", pid="77") is None


def test_ampere_has_no_gpm_and_no_margin_call(start: Start, sim: SimDriver) -> None:
    sim.set(gpm=0, margin=NA, slowdown_temperature=95, fabric_state=0)
    watch = start()
    watch.until(watch.has("gpu_temperature_margin_celsius", 37))
    watch.for_seconds(0.3)
    assert watch.get("gpu_memory_bandwidth_ratio") is None
    assert watch.get("gpu_memory_busy_ratio") == 0.61
    assert watch.get("gpu_fabric_state") is None


def test_soc_without_memory_info(start: Start, sim: SimDriver) -> None:
    sim.count(1).set(name="NVIDIA GB10", memory_total=NA, memory_used=NA, links=NA, power_limit=NA)
    watch = start()
    watch.until(watch.has("gpus", 1))
    assert watch.get("gpu_memory_total_bytes") is None
    assert watch.get("gpu_memory_used_bytes") is None
    assert watch.get("gpu_power_limit_watts") is None
    assert watch.get("gpu_nvlink_up") is None
    assert watch.get("gpu_temperature_celsius", sensor="core") == 58


def test_memory_record_of_old_drivers(start: Start, sim: SimDriver) -> None:
    sim.set(memory_v2=0)
    watch = start()
    watch.until(watch.has("gpu_memory_used_bytes", 64424509440 + 655360000))
    assert watch.get("gpu_memory_reserved_bytes") is None


def test_library_that_lacks_newer_functions(start: Start, sim: SimDriver) -> None:
    newer = ["MemoryInfo_v2", "TemperatureV", "MarginTemperature", "GpuFabricInfoV"]
    newer += ["ComputeRunningProcesses_v3", "CurrentClocksEventReasons", "SramEccErrorStatus"]
    hide = tuple(f"nvmlDeviceGet{name}" for name in newer)
    sim.built = build(hide=(*hide, "nvmlGpmQueryDeviceSupport", "nvmlEventSetWait_v2"))
    watch = start()
    sim.process(0, 55, 9)
    watch.until(watch.has("gpu_process_memory_bytes", 9, pid="55"))
    assert watch.get("gpu_temperature_celsius", sensor="core") == 58
    assert watch.get("gpu_throttle_active", reason="power_cap") == 1
    assert watch.get("gpu_fabric_state") == 3


def test_links_asked_one_by_one_where_fields_have_none(start: Start, sim: SimDriver) -> None:
    for number in (161, 162, 163, 165):
        sim.field_value(-1, number, NA)
    sim.link(5, 3, up=0, crc=12)
    watch = start()
    watch.until(watch.has("gpu_nvlink_errors_total", 12, gpu="5", link="3", kind="crc"))
    assert watch.get("gpu_nvlink_up", gpu="5", link="3") == 0
    assert watch.get("gpu_nvlink_up", gpu="5", link="4") == 1


def test_links_in_one_call(start: Start, sim: SimDriver) -> None:
    sim.link(5, 3, up=0, replay=4).link(5, 6, up=2)
    watch = start()
    watch.until(watch.has("gpu_nvlink_errors_total", 4, gpu="5", link="3", kind="replay"))
    assert watch.get("gpu_nvlink_up", gpu="5", link="3") == 0
    assert watch.get("gpu_nvlink_up", gpu="5", link="6") == 1, "asleep is up"
    assert sim.calls()["nvmlDeviceGetNvLinkState"] == 0


def test_nvlink_bytes_of_newer_generations(start: Start, sim: SimDriver) -> None:
    sim.set(nvlink_tx=NA, nvlink_rx=NA)
    for gpu in range(8):
        sim.field_value(gpu, 202, 1234).field_value(gpu, 204, 5678)
    watch = start()
    watch.until(watch.has("gpu_nvlink_rx_bytes_total", 5678, gpu="0"))
    assert watch.get("gpu_nvlink_tx_bytes_total", gpu="0") == 1234


def test_mig_instances(start: Start, sim: SimDriver) -> None:
    sim.mig(1, 7, "1g.10gb", 10 << 30, 3 << 30).mig(1, 9, "3g.40gb", 40 << 30, 1 << 30)
    sim.process(1, 66, 2 << 30, instance=9)
    watch = start()
    watch.until(watch.has("gpu_mig_memory_used_bytes", 3 << 30, gpu="1", gpu_instance="7"))
    assert watch.get("gpu_mig_memory_total_bytes", uuid=uuid_of(1), gpu_instance="9") == 40 << 30
    assert watch.get("gpu_info", gpu="1", mig_profile="3g.40gb") == 1
    assert watch.get("gpu_process_memory_bytes", gpu="1", pid="66") == 2 << 30
    assert watch.get("gpu_utilization_ratio", gpu="1") is None
    assert watch.get("gpu_utilization_ratio", gpu="0") == 0.97


def test_driver_versions(start: Start, tmp_path: Path) -> None:
    module = tmp_path / "sys/module/nvidia"
    module.mkdir(parents=True)
    (module / "version").write_text("570.86.15\n")
    watch = start(root=tmp_path)
    watch.until(watch.has("driver_info", 1, nvml="570.124.06", kernel_module="570.86.15"))


def test_no_driver_on_this_machine(start: Start, tmp_path: Path) -> None:
    watch = start(env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)})
    with pytest.raises(Unavailable, match="libnvidia-ml"):
        watch.until(lambda: False)


def test_no_driver_where_gpus_are_expected(start: Start, tmp_path: Path) -> None:
    watch = start(env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}, expected=8)
    watch.until(watch.has("nvml_return_code", 12))
    assert watch.get("nvml_up") == 0
    assert watch.get("gpus_expected") == 8
    assert watch.get("gpus") is None
