from __future__ import annotations

from gpudiag.probes.nvml.told import driver_event, reader_event
from gpudiag.probes.reader import Notice


def test_unknown_error_is_the_agents_only_if_it_worked_before() -> None:
    assert "GPUs are not at fault" in driver_event(0, 999, worked=True).line
    assert "had worked" not in driver_event(0, 999, worked=False).line


def test_code_that_nobody_documented() -> None:
    event = driver_event(0, 4711, worked=True)
    assert event.fields == {"code": "4711", "trouble": "driver"}


def test_wedge_names_the_call_or_the_gpu() -> None:
    wedged = Notice("wedged", 5.2)
    in_init = reader_event(1, wedged, "nvmlInit")
    at_gpu = reader_event(1, wedged, "GPU-7")
    assert in_init is not None
    assert at_gpu is not None
    assert "5.2 s in nvmlInit;" in in_init.line
    assert "5.2 s while reading GPU-7;" in at_gpu.line
    assert (dict(in_init.fields), dict(at_gpu.fields)) == ({}, {"uuid": "GPU-7"})


def test_ordinary_end_is_no_event() -> None:
    assert reader_event(1, Notice("ended", 3, status=0), "") is None
    crash = reader_event(1, Notice("ended", 3, status=-11), "GPU-7")
    assert crash is not None
    assert "SIGSEGV while reading GPU-7" in crash.line
