"""Charts show every spike, break where data are missing, and stay inside their frame."""

from __future__ import annotations

import re

import numpy as np

from gpudiag.agent.exporters.page import charts


def test_thinning_keeps_a_single_spike() -> None:
    values = np.zeros(5000)
    values[3333] = 7.0
    times, kept = charts.thinned(np.arange(5000.0), values)
    assert len(times) <= 120
    assert kept.max() == 7.0
    assert times[kept.argmax()] == 3333.0


def test_a_gap_breaks_the_line() -> None:
    times = np.array([0.0, 1.0, 2.0, 60.0, 61.0])
    svg = charts.chart(times, np.arange(5.0), limits=None, since=-1.0, label="x")
    assert len(re.findall("M", str(svg).split('d="')[1])) == 2


def test_the_limit_is_in_the_frame_though_the_data_are_far_from_it() -> None:
    svg = charts.chart(np.arange(9.0), np.ones(9), limits=(50.0, None), since=3.0, label="x")
    heights = [float(y) for y in re.findall(r'y1="([-\d.]+)"', str(svg))]
    assert heights
    assert all(0.0 <= y <= charts.HEIGHT for y in heights)
    assert 'class="since"' in svg


def test_a_beginning_outside_the_chart_is_not_marked() -> None:
    svg = charts.chart(np.arange(9.0), np.ones(9), limits=None, since=-5.0, label="x")
    assert 'class="since"' not in svg


def test_the_label_is_escaped() -> None:
    svg = charts.bar(0.5, '"><script>')
    assert "<script>" not in svg


def test_a_bar_is_never_longer_than_its_rail() -> None:
    assert 'width="96.0" height="8" rx="2"/></svg>' in charts.bar(1.7, "x")


def test_a_spark_needs_two_points() -> None:
    assert not charts.spark(np.arange(1.0), np.ones(1), top=1.0, label="x")
    assert charts.spark(np.arange(2.0), np.ones(2), top=1.0, label="x")
