import contextlib
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.agent.channel import packets
from gpudiag.agent.channel.packets import Hello, Malformed, Metrics, parse, readings


def metrics(*values):
    return parse(json.dumps({"kind": "metrics", "time": 1.0, "values": values}).encode())


def test_a_hello_with_only_what_it_must_have():
    said = parse(b'{"kind":"hello","pid":7,"job":"a","rank":3,"later":{"x":1}}')
    assert isinstance(said, Hello)
    assert (said.pid, said.job, said.rank, said.world_size) == (7, "a", 3, None)


def test_a_configuration_of_any_values_is_taken():
    said = parse(b'{"kind":"hello","pid":7,"config":{"precision":null,"x":3},"features":[1]}')
    assert isinstance(said, Hello)


def test_an_unknown_kind_is_no_error():
    assert parse(b'{"kind":"later","x":1}') is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"7",
        b'{"kind":"hello"}',
        b'{"pid":1}',
        b'{"kind":[]}',
        b'{"kind":"metrics","time":1,"values":[["m"]]}',
        b'{"kind":"bye","reason":"angry"}',
        b'{"kind":"event","time":1,"type":"' + b"x" * packets.MAX_PACKET + b'"}',
        b"[" * 50_000,
    ],
)
def test_what_is_no_packet_is_refused(data):
    with pytest.raises(Malformed):
        parse(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data):
    with contextlib.suppress(Malformed):
        parse(data)


def test_a_loss_that_is_no_number_costs_only_itself():
    said = metrics(["gpudiag_train_loss", {}, math.nan], ["gpudiag_train_steps_total", {}, 5])
    assert list(readings(said)) == [("gpudiag_train_steps_total", (), 5.0)]


def test_infinity_passes():
    assert [value for *_, value in readings(metrics(["gpudiag_train_loss", {}, math.inf]))] == [
        math.inf
    ]


@pytest.mark.parametrize(
    "metric",
    ["made_up", "gpudiag_gpu_power_watts", "gpudiag_train_info", "gpudiag_train_loss_bucket"],
)
def test_a_process_reports_only_what_is_its_own(metric):
    assert list(readings(Metrics(time=0.0, values=[(metric, {}, 1.0)]))) == []


def test_a_histogram_comes_by_its_parts():
    row = ("gpudiag_train_step_duration_seconds_bucket", {"le": "0.1"}, 4.0)
    assert list(readings(Metrics(time=0.0, values=[row]))) == [(row[0], (("le", "0.1"),), 4.0)]


def test_label_values_are_bounded():
    ((_, pairs, _),) = readings(
        Metrics(time=0.0, values=[("gpudiag_train_phase_seconds", {"phase": "x" * 9999}, 1.0)])
    )
    assert len(pairs[0][1]) == packets.MAX_NAME
