from __future__ import annotations

import pytest

from gpudiag.agent.doctor import gpus
from gpudiag.probes import Sample
from tests.agent.doctor.glance import GPU, finding, glance, told

INFO = told("gpu_info", 1, uuid=GPU, gpu="0", name="NVIDIA H100")


def gpu(metric: str, value: float, **pairs: str) -> Sample:
    return told(f"gpu_{metric}", value, uuid=GPU, gpu="0", **pairs)


def seen(*samples: Sample) -> str:
    return gpus.lines(glance(INFO, *samples))[0].seen


def test_no_gpu_no_line() -> None:
    assert gpus.lines(glance()) == []


def test_gpus_stand_in_the_drivers_order() -> None:
    many = [told("gpu_info", 1, uuid=f"GPU-{n}", gpu=str(n)) for n in (10, 2, 0)]
    order = [line.check.split()[1] for line in gpus.lines(glance(*many))]
    assert order == ["0", "2", "10"]


def test_a_mig_slice_is_no_gpu() -> None:
    assert len(gpus.lines(glance(INFO, told("gpu_info", 1, uuid="MIG-1", gpu="0")))) == 1


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (
            [gpu("memory_used_bytes", 2**30), gpu("memory_total_bytes", 2**31)],
            "1.0 of 2.0 GiB used",
        ),
        ([gpu("utilization_ratio", 0.5)], "50% busy"),
        ([gpu("power_watts", 300), gpu("power_limit_watts", 700)], "300 of 700 W"),
        ([gpu("temperature_celsius", 41, sensor="core")], "41 °C"),
        ([gpu("throttle_active", 1, reason="hw_thermal")], "clock held by hw_thermal"),
        ([gpu("nvlink_up", 1, link="0"), gpu("nvlink_up", 0, link="1")], "NVLink 1 of 2 up"),
        ([gpu("fabric_state", 3)], "fabric joined"),
        ([gpu("fabric_state", 2)], "fabric not joined (state 2)"),
        ([gpu("ecc_errors_total", 3, kind="uncorrected", scope="volatile")], "3 uncorrected ECC"),
        ([gpu("row_remap_failed", 1)], "row remapping failed"),
        ([gpu("row_remap_pending", 1)], "row remapping waits for a reset"),
        ([gpu("recovery_action", 1)], "the driver asks: The GPU must be reset"),
    ],
)
def test_each_figure_is_told(samples: list[Sample], text: str) -> None:
    assert text in seen(*samples)


@pytest.mark.parametrize(
    "sample",
    [gpu("throttle_active", 1, reason="idle"), gpu("fabric_state", 0), gpu("recovery_action", 0)],
)
def test_what_means_nothing_is_not_told(sample: Sample) -> None:
    assert seen(sample) == "NVIDIA H100"


def pcie(generation: int) -> list[Sample]:
    return [
        gpu("pcie_link_generation", generation),
        gpu("pcie_link_generation_max", 5),
        gpu("pcie_link_width", 16),
        gpu("pcie_link_width_max", 16),
    ]


def test_a_full_link() -> None:
    assert seen(*pcie(5)).endswith("PCIe Gen5 x16")


def test_a_slow_link_is_no_verdict_while_idle() -> None:
    line = gpus.lines(glance(INFO, *pcie(1)))[0]
    assert line.state == "ok"
    assert "PCIe Gen1 x16 of Gen5 x16 (tells something only under load)" in line.seen


def test_a_finding_about_the_gpu_stands_on_its_line() -> None:
    hot = finding("thermal-throttle", "It is hot.", subject=(("uuid", GPU),))
    other = finding("gpu-lost", "Gone.", subject=(("uuid", "GPU-2"),))
    line = gpus.lines(glance(INFO, findings=[hot, other]))[0]
    assert (line.state, line.seen) == ("critical", "It is hot. NVIDIA H100")


def test_a_lost_gpu() -> None:
    assert gpus.lines(glance(INFO, gpu("lost", 1)))[0].state == "critical"


@pytest.mark.parametrize(
    ("sample", "todo"),
    [
        (gpu("row_remap_failed", 1), "replaced"),
        (gpu("row_remap_pending", 1), "--gpu-reset"),
        (gpu("recovery_action", 2), "Drain the node"),
    ],
)
def test_what_the_driver_asks_for_stands_from_the_first_reading(sample: Sample, todo: str) -> None:
    line = gpus.lines(glance(INFO, sample))[0]
    assert line.state == "warning"
    assert todo in line.todo


def test_a_gpu_that_says_nothing_cannot_be_told() -> None:
    assert gpus.lines(glance(gpu("clock_hertz", 1e9)))[0].state == "unknown"
