from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.agent.doctor import driver
from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line
from tests.agent.doctor.glance import absent, finding, glance, told


def line(look: Look, check: str, on_bus: int = 0) -> Line:
    return next(found for found in driver.lines(look, on_bus) if found.check == check)


def test_a_driver_that_answers() -> None:
    assert line(glance(told("nvml_return_code", 0)), "NVML").state == "ok"


def test_no_driver_is_said_and_is_no_fault() -> None:
    look = glance(nvml=absent("nvml", "no NVIDIA driver here"))
    assert line(look, "NVML") == Line("driver", "NVML", "absent", "no NVIDIA driver here")
    assert line(look, "GPUs").state == "absent"


@pytest.mark.parametrize(
    ("code", "state", "word"),
    [
        (18, "critical", "LIB_RM_VERSION_MISMATCH"),
        (9, "critical", "DRIVER_NOT_LOADED"),
        (12, "absent", "LIBRARY_NOT_FOUND"),
        (999, "unknown", "control group that was rewritten"),
        (4711, "unknown", "a code not known"),
    ],
)
def test_a_refusal_is_explained_by_the_catalogue(code: int, state: str, word: str) -> None:
    found = line(glance(told("nvml_return_code", code)), "NVML")
    assert found.state == state
    assert word in found.seen
    assert found.todo


def test_a_driver_that_hangs_is_told() -> None:
    found = line(glance(silent=["nvml"]), "NVML")
    assert found.state == "critical"
    assert found.seen == "NVML does not answer: no call came back in 6 s."


def test_a_driver_that_hung_after_a_while_is_told() -> None:
    assert line(glance(told("nvml_wedged", 1)), "NVML").state == "critical"


def test_versions_that_differ() -> None:
    look = glance(told("driver_info", 1, nvml="570.1", kernel_module="550.2"))
    found = line(look, "versions")
    assert (found.state, found.seen) == ("critical", "library 570.1, kernel module 550.2")


def test_versions_that_agree() -> None:
    look = glance(told("driver_info", 1, nvml="570.1", kernel_module="570.1"))
    assert line(look, "versions").state == "ok"


def test_a_version_that_is_not_told_cannot_be_compared() -> None:
    look = glance(told("driver_info", 1, nvml="570.1", kernel_module=""))
    assert line(look, "versions").state == "unknown"


def test_fewer_gpus_than_expected() -> None:
    found = line(glance(told("gpus", 7), told("gpus_expected", 8)), "GPUs")
    assert (found.state, found.seen) == ("critical", "7 listed by the driver, 8 expected")


def test_fewer_gpus_than_on_the_bus_may_be_what_a_container_was_given() -> None:
    assert line(glance(told("gpus", 2), told("gpus_expected", 2)), "GPUs", 8).state == "note"


def test_the_rule_has_the_word_where_it_fired() -> None:
    look = glance(told("gpus", 7), findings=[finding("gpu-count-low", "One is missing.")])
    assert line(look, "GPUs").seen.startswith("One is missing.")


def test_gpus_on_the_bus_that_no_driver_lists() -> None:
    assert line(glance(nvml=absent("nvml", "no driver")), "GPUs", 8).state == "unknown"


def test_a_driver_that_lists_nothing_is_not_a_node_without_gpus() -> None:
    assert line(glance(told("nvml_return_code", 18)), "GPUs").state == "unknown"


def test_counts_nvidia_display_devices_on_the_bus(tmp_path: Path) -> None:
    for address, vendor, kind in (
        ("0000:3b:00.0", "0x10de", "0x030200"),
        ("0000:3c:00.0", "0x10de", "0x068000"),
        ("0000:00:02.0", "0x8086", "0x030000"),
    ):
        device = tmp_path / "bus/pci/devices" / address
        device.mkdir(parents=True)
        (device / "vendor").write_text(vendor + "\n")
        (device / "class").write_text(kind + "\n")
    assert driver.pci_gpus(tmp_path) == 1
