from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpudiag.agent.recording import incident
from gpudiag.agent.recording.expectations import Expect, Expectations
from gpudiag.probes import Event, Sample
from gpudiag.probes.errors import UsageError

WHOLE = r"""
version: 1
title: A GPU falls off the bus
notes: seen twice
interval: 10s
input_series:
  - series: 'gpudiag_gpu_utilization_ratio{uuid="GPU-1"}'
    values: '0.9x1 _ stale'
  - series: gpudiag_gpus
    values: 8 8 7
events:
  - {at: 1m30s, source: kmsg, line: 'NVRM: Xid (PCI:0000:3b:00): 79, gone'}
  - at: 5s
    source: torch
    type: oom
    rank: 0
    line: CUDA out of memory
expect:
  - {symptom: gpu-xid, cause: [xid-79, xid-45], subject: {uuid: GPU-1}, by: 2m}
  - {symptom: thermal-throttle, cause: thermal-throttle, state: unknown}
quiet: [gpu-lost]
"""


def test_samples_stand_in_time_order_with_gaps_left_out() -> None:
    samples, _ = incident.parse(WHOLE).timeline.samples(0, 20.0)
    labels = (("uuid", "GPU-1"),)
    assert samples == [
        Sample("gpudiag_gpu_utilization_ratio", labels, 0.0, 0.9),
        Sample("gpudiag_gpus", (), 0.0, 8.0),
        Sample("gpudiag_gpu_utilization_ratio", labels, 10.0, 0.9),
        Sample("gpudiag_gpus", (), 10.0, 8.0),
        Sample("gpudiag_gpus", (), 20.0, 7.0),
    ]


def test_stale_is_a_nan_sample() -> None:
    timeline = incident.parse(WHOLE).timeline
    (sample,), _ = timeline.samples(5, 30.0)
    assert sample.time == 30.0
    assert math.isnan(sample.value)


def test_events_are_sorted_and_extra_keys_are_fields() -> None:
    first, second = incident.parse(WHOLE).timeline.events
    assert first == Event(5.0, "torch", "CUDA out of memory", "oom", {"rank": "0"})
    assert (second.time, second.source, second.fields) == (90.0, "kmsg", {})


def test_it_runs_from_zero_to_the_last_event() -> None:
    read = incident.parse(WHOLE)
    assert (read.timeline.start, read.timeline.end, read.timeline.interval) == (0.0, 90.0, 10.0)
    assert (read.title, read.notes) == ("A GPU falls off the bus", "seen twice")


def test_expectations() -> None:
    assert incident.parse(WHOLE).expectations == Expectations(
        (
            Expect("gpu-xid", ("xid-79", "xid-45"), {"uuid": "GPU-1"}, 120.0),
            Expect("thermal-throttle", ("thermal-throttle",), state="unknown"),
        ),
        frozenset({"gpu-lost"}),
    )


def test_quiet_may_be_every_symptom() -> None:
    assert incident.parse("quiet: '*'").expectations.quiet == {"*"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("title: x\nsymptom: y", "f.yaml:2: symptom: no such key; there are events, expect"),
        ("title: x\ntitle: y", "f.yaml:2: title: stands here twice"),
        ("version: 2", "f.yaml:1: version: this gpudiag reads version 1"),
        ("interval: 10", "f.yaml:1: interval: '10' is not a duration"),
        ("interval: 0s", "f.yaml:1: interval: must be longer than nothing"),
        ("- a", "f.yaml:1: top level: must be a mapping"),
        ("a: [", "f.yaml:1: not valid YAML"),
        ("", "f.yaml:1: is empty"),
        ("input_series: {a: 1}", "f.yaml:1: input_series: must be a list"),
        ("input_series:\n- series: m", r"f.yaml:2: input_series\[0\]: lacks values"),
        (
            "input_series:\n- series: m\n  values: 1 x",
            r"f.yaml:3: input_series\[0\].values: 'x' is",
        ),
        ("input_series:\n- series: '{}'\n  values: 1", r"f.yaml:2: .*names no metric"),
        (
            "input_series:\n- {series: m, values: 1}\n- {series: 'm{}', values: 1}",
            "f.yaml:3: .*this series stands here twice",
        ),
        ("events:\n- {at: 1s, line: x}", r"f.yaml:2: events\[0\]: lacks source"),
        ("events:\n- {at: 1s, source: dmesg, line: x}", r"f.yaml:2: .*no such source"),
        ("events:\n- {at: 1s, source: 'log:', line: x}", r"f.yaml:2: .*no such source"),
        ("events:\n- {at: 1s, source: torch, line: x, a: [1]}", r"events\[0\].a: must be a single"),
        ("expect:\n- {symptom: gpu-xyz}", r"f.yaml:2: .*no such symptom: gpu-xyz"),
        ("expect:\n- {symptom: gpu-xid, because: x}", r"f.yaml:2: .*because: no such key"),
        ("expect:\n- {symptom: gpu-xid, subject: {gpu: 1}}", r"f.yaml:2: .*subject.gpu: no such"),
        ("expect:\n- {symptom: gpu-xid, state: pending}", r"f.yaml:2: .*must be firing, resolved"),
        ("quiet: [gpu-xyz]", "f.yaml:1: .*no such symptom"),
    ],
)
def test_a_malformed_file_is_named_with_line_and_key(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        incident.parse(text, "f.yaml")
    assert caught.value.exit_code == 2


def test_values_share_one_bound_over_the_file() -> None:
    series = "".join(f"- {{series: m{n}, values: 0x999999}}\n" for n in range(6))
    with pytest.raises(UsageError, match=r"input_series\[5\].values: .* makes more than 0"):
        incident.parse(f"input_series:\n{series}")


def test_aliases_do_not_explode() -> None:
    bomb = "notes: &a [x,x,x]\n" + "title: [" + ",".join(["*a"] * 9) + "]"
    with pytest.raises(UsageError, match="must be a single value"):
        incident.parse(bomb)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(UsageError, match="not valid YAML"):
        incident.parse("title: " + "[" * 5000)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*gone\.yaml"):
        incident.read(tmp_path / "gone.yaml")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read"):
        incident.read(tmp_path / "x.yaml")
