"""Numbers and times as a person reads them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpudiag.agent.exporters import words
from gpudiag.probes.catalog import metrics


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (61203283968.0, "bytes", "57 GiB"),
        (512.0, "bytes", "512 B"),
        (-(2.0**31), "bytes", "-2 GiB"),
        (0.974, "ratio", "97.4 %"),
        (1.155e9, "hertz", "1.16 GHz"),
        (88.0, "celsius", "88 °C"),
        (0.25, "seconds", "0.25 s"),
        (754.0, "seconds", "12 min"),
        (12345.0, "per second", "12,345 per second"),
        (3.14159, "", "3.142"),
        ("Xid 79", "bytes", "Xid 79"),
        (float("nan"), "bytes", "nan"),
    ],
)
def test_quantity(value: float | str, unit: str, text: str) -> None:
    assert words.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-3, "0 s"), (59, "59 s"), (480, "8 min"), (12000, "3 h 20 min"), (172800, "2 d")],
)
def test_duration(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.95, "almost certain"), (0.8, "very likely"), (0.5, "likely"), (0.3, "a guess")],
)
def test_confidence(value: float, text: str) -> None:
    assert words.confidence(value) == text


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "CET-1")
    time.tzset()
    yield
    monkeypatch.undo()
    os.environ.setdefault("TZ", "UTC")
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_local_time_beside_utc() -> None:
    assert words.clock(1_764_594_000.0) == "2025-12-01 14:00:00 CET"
    assert words.utc(1_764_594_000.0) == "13:00:00 UTC"


def test_a_recording_has_its_own_clock() -> None:
    assert words.clock(3725.0) == "1:02:05 into the recording"
    assert words.utc(3725.0) == ""


def test_identifiers_are_spelled_out() -> None:
    assert words.plain("pcie-degraded") == "PCIe degraded"
    assert words.measure(metrics()["gpudiag_gpu_energy_joules_total"]) == "GPU energy"


def test_subject_names_the_gpu_by_its_number_where_known() -> None:
    assert words.subject({"uuid": "GPU-1"}, {"GPU-1": "3"}) == "GPU 3"
    assert words.subject({"uuid": "GPU-1"}, {}) == "GPU-1"
    assert words.subject({"job": "llama", "rank": "3"}, {}) == "job llama, rank 3"
    assert words.subject({}, {}) == "this node"


def test_a_share_has_one_unit_where_it_can() -> None:
    assert words.share(2.0**30, 2.0**33, "bytes").split() == ["1", "of", "8", "GiB"]
    assert words.share(2.0**20, 2.0**33, "bytes").split() == ["1", "MiB", "of", "8", "GiB"]


def evidence(value: float | str | None, unit: str, expected: str, **labels: str) -> dict[str, Any]:
    name = "gpudiag_gpu_xid_errors_total"
    return {"name": name, "value": value, "unit": unit, "expected": expected, "labels": labels}


def test_a_fact_tells_two_series_apart_but_does_not_repeat_the_subject() -> None:
    said = words.fact(evidence(1.0, "", "0 in 24 h", uuid="GPU-6", gpu="6", xid="48"))
    assert said == ("GPU XID errors (XID 48)", "1", "0 in 24 h")


def test_a_fact_that_is_no_metric_names_its_source() -> None:
    line = evidence("NVRM: Xid 79", "", "") | {"name": "kmsg"}
    assert words.fact(line) == ("Kernel log", "NVRM: Xid 79", "")


@pytest.mark.parametrize(
    ("unit", "expected", "text"),
    [
        ("ratio", "below 0.3", "below 30 %"),
        ("celsius", "above 3", "above 3 °C"),
        ("hertz", ">= 1.9e9", ">= 1.9 GHz"),
        ("celsius", "> -5", "> -5 °C"),
        ("", "0", "0"),
        ("hertz", "1.98 GHz, as its peers", "1.98 GHz, as its peers"),
        ("ratio", "20-30 %", "20-30 %"),
        ("ratio", "no increase", "no increase"),
        ("ratio", "", ""),
    ],
)
def test_a_bare_expectation_has_the_unit_of_its_value(unit: str, expected: str, text: str) -> None:
    assert words.fact(evidence(1.0, unit, expected)).expected == text


def test_a_value_that_json_could_not_hold_is_not_a_number() -> None:
    assert words.fact(evidence(None, "ratio", "")).value == "nan"


def test_the_words_need_nothing_of_the_agent() -> None:
    code = (
        "import sys; import gpudiag.agent.exporters.words; "
        "print({'markupsafe', 'jinja2', 'numpy', 'starlette'} & set(sys.modules))"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout == "set()\n"
