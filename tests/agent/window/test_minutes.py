import math
from typing import Literal

import numpy as np
import pytest

from gpudiag.agent.window import Series, Window
from gpudiag.probes import Sample, labels

A, B = labels(gpu="0"), labels(gpu="1")


def ramp(seconds: int, *, metric: str = "m") -> Window:
    window = Window((), trends={metric})
    for second in range(seconds):
        window.now = float(second)
        window.add([Sample(metric, A, second, float(second))])
    return window


def only(found: list[Series]) -> tuple[list[float], list[float]]:
    (series,) = found
    return series.times.tolist(), series.values.tolist()


@pytest.mark.parametrize(
    ("stat", "values"),
    [("min", [0, 60]), ("mean", [29.5, 89.5]), ("max", [59, 119]), ("last", [59, 119])],
)
def test_each_statistic_of_the_finished_minutes(
    stat: Literal["min", "mean", "max", "last"], values: list[float]
) -> None:
    assert only(ramp(150).minutes("m", 600.0, stat)) == ([0.0, 60.0], values)


def test_the_span_is_in_whole_minutes() -> None:
    assert only(ramp(400).minutes("m", 120.0))[0] == [240.0, 300.0]


def test_a_late_sample_has_its_minute_made_anew() -> None:
    window = ramp(130)
    assert only(window.minutes("m", 600.0, "max"))[1] == [59.0, 119.0]
    window.add([Sample("m", A, 110.5, 5000.0)])
    assert only(window.minutes("m", 600.0, "max"))[1] == [59.0, 5000.0]


def test_the_next_minute_appears_when_it_is_over() -> None:
    window = ramp(120)
    assert only(window.minutes("m", 600.0))[0] == [0.0]
    window.now = 120.0
    assert only(window.minutes("m", 600.0))[0] == [0.0, 60.0]


def test_a_minute_without_readings_is_absent() -> None:
    window = ramp(60)
    window.add([Sample("m", A, 70.0, math.nan), Sample("m", B, 70.0, 3.0)])
    window.now = 185.0
    window.add([Sample("m", A, 185.0, 1.0), Sample("m", B, 185.0, 3.0)])
    assert only(window.minutes("m", 600.0, gpu="0"))[0] == [0.0]
    assert only(window.minutes("m", 600.0, gpu="1"))[0] == [60.0]


def test_a_new_series_has_no_minutes_yet() -> None:
    window = ramp(130)
    window.minutes("m", 600.0)
    window.add([Sample("m", B, 129.0, 3.0)])
    assert only(window.minutes("m", 600.0, gpu="1")) == ([], [])


def test_the_last_of_a_counter_is_bridged_over_resets() -> None:
    window = Window((), trends={"x_total"})
    for minute, value in enumerate([100.0, 150.0, 20.0, 30.0]):
        window.now = minute * 60.0
        window.add([Sample("x_total", A, window.now, value)])
    window.now = 240.0
    assert only(window.minutes("x_total", 600.0, "last"))[1] == [100.0, 150.0, 170.0, 180.0]


def test_two_days_are_held_and_no_more() -> None:
    window = Window((), trends={"m"})
    for minute in range(60 * 56):
        window.now = minute * 60.0
        window.add([Sample("m", A, window.now, 1.0)])
    times, _ = only(window.minutes("m", 1e9))
    assert 48 * 60 <= len(times) <= 56 * 60
    assert len(window.series("m", 1e9)[0].times) < 200


def test_minutes_equal_those_of_plain_numpy() -> None:
    random = np.random.default_rng(5)
    times = np.sort(random.uniform(0.0, 1200.0, 500))
    values = random.normal(size=500)
    window = Window((), trends={"m"})
    for time, value in zip(times, values, strict=True):
        window.now = float(time)
        window.add([Sample("m", A, float(time), float(value))])
    starts = times // 60 * 60
    finished = sorted({s for s in starts if s + 60 <= window.now})
    means = [values[starts == s].mean() for s in finished]
    found_times, found = only(window.minutes("m", 3600.0, "mean"))
    assert found_times == finished
    assert found == pytest.approx(means)
