"""What is drafted reads back as what was recorded."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.agent.recording import drafting, incident, notation
from gpudiag.agent.recording.drafting import Span
from gpudiag.agent.recording.expectations import NOTHING, Expect, Expectations
from gpudiag.probes import Event, labels

KEY = ("gpudiag_gpu_power_watts", labels(uuid='GPU "1"\\', gpu="0"))
SPAN = Span(1_764_594_000.0, 5.0, 4)


def column(times, values, key=KEY):
    return key, np.array(times, float) + SPAN.start, np.array(values, float)


def read(columns=(), events=(), wanted=NOTHING, span=SPAN):
    return incident.parse(drafting.draft("a: title", "of #1", span, columns, events, wanted))


number = st.floats(-1e12, 1e12).map(lambda value: float(f"{value:.6g}"))
cells = st.lists(st.one_of(st.none(), st.just(math.nan), number), min_size=1, max_size=30)


@given(cells)
def test_cells_read_back_as_they_were(written):
    np.testing.assert_array_equal(
        np.array(notation.values(drafting.notation(written)), float), np.array(written, float)
    )


def test_runs_stand_together():
    assert drafting.notation([0.0] * 21 + [1.0, None, None]) == "0x20 1 _x2"


def test_samples_go_to_the_nearest_moment_and_gaps_stay_gaps():
    line = read([column([0.4, 4.9, 14.0, 15.2], [1, 2, 3, 4])]).timeline
    assert line.keys == (KEY,)
    assert list(zip(line.times.tolist(), line.values.tolist(), strict=True)) == [
        (0.0, 1.0), (5.0, 2.0), (15.0, 4.0)
    ]  # fmt: skip
    assert (line.start, line.interval) == (0.0, 5.0)


def test_what_lies_outside_is_left_out():
    line = read([column([-9.0, 5.0, 99.0], [1, 2, 3]), column([-9.0], [1], ("m", ()))]).timeline
    assert line.values.tolist() == [2.0]
    assert line.keys == (KEY,)


def test_events_keep_their_fields_and_foreign_sources_are_left_out():
    said = 'NVRM: Xid "79", \ttab: #no comment'
    inside = Event(SPAN.start + 2.5, "kmsg", said, "xid", {"xid": "79", "at": "x"})
    events = [inside, Event(SPAN.start - 1, "kmsg", "before"), Event(SPAN.start, "own", "foreign")]
    (event,) = read(events=events).timeline.events
    assert event == Event(2.5, "kmsg", said, "xid", {"xid": "79"})


def test_expectations_read_back():
    wanted = Expectations(
        (Expect("straggler", ("slow-worker",), {"job": "a b", "rank": "3"}),),
        frozenset({"gpu-xid"}),
    )
    assert read(wanted=wanted).expectations == wanted


def test_too_long_a_file_leaves_series_out_and_says_so(monkeypatch):
    monkeypatch.setattr(drafting, "MAX_CHARACTERS", 150)
    many = [column([0.0], [n], ("m", labels(n=str(n)))) for n in range(9)]
    found = read(many)
    assert 0 < len(found.timeline.keys) < 9
    assert f"{9 - len(found.timeline.keys)} series were left out" in found.notes


@pytest.mark.parametrize("interval", [5.0, 61.0, 3600.0])
def test_any_step_can_be_read(interval):
    span = Span(SPAN.start, interval, 2)
    assert read([column([interval], [1])], span=span).timeline.times.tolist() == [interval]
