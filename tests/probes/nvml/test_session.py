from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpudiag.probes.nvml.client import UNKNOWN, Question, text_of
from gpudiag.probes.nvml.session import next_look, sysfs_bus, versions


def test_missing_gpus_are_looked_for_ever_more_seldom() -> None:
    looks = [next_look(0)]
    while len(looks) < 7:
        looks.append(next_look(looks[-1]))
    assert looks == [30, 60, 120, 240, 300, 300, 300]


@pytest.mark.parametrize(
    ("nvml", "sysfs"),
    [
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("0000000A:E1:00.0", "000a:e1:00.0"),
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("", ""),
    ],
)
def test_bus_as_the_kernel_writes_it(nvml: str, sysfs: str) -> None:
    assert sysfs_bus(nvml) == sysfs


def _garbled(*_: object) -> str:
    return b"\x9a".decode()


def test_a_driver_whose_texts_are_garbage_ends_no_child(tmp_path: Path) -> None:
    nvml = SimpleNamespace(
        NVMLError=RuntimeError, nvmlDeviceGetName=_garbled, nvmlSystemGetNVMLVersion=_garbled
    )
    name = Question(nvml, "nvmlDeviceGetName")
    assert (name.ask(0), name.code) == (None, UNKNOWN)
    assert versions(nvml, tmp_path) == {}
    assert text_of(b"H100\x9a") == "H100\ufffd"
