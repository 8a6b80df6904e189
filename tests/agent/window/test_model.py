"""The window against the plainest model there is: a dictionary of readings by time."""

import math
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from gpudiag.agent.window import Window
from gpudiag.agent.window.minutes import STATS
from gpudiag.probes import Labels, Sample, labels

KEYS = [labels(gpu=str(n)) for n in range(3)]

values = st.one_of(st.integers(0, 50).map(float), st.just(math.nan))
readings = st.tuples(st.sampled_from(KEYS), st.integers(-80, 25), st.integers(0, 3), values)


class Model:
    def __init__(self) -> None:
        self.held: dict[Labels, dict[float, float]] = {key: {} for key in KEYS}
        self.newest: dict[Labels, float] = {}
        self.dropped = 0

    def add(self, key: Labels, time: float, value: float) -> None:
        newest = self.newest.get(key, -math.inf)
        if newest - time > 60.0:
            self.dropped += 1
            return
        self.newest[key] = max(newest, time)
        self.held[key][time] = value

    def series(self, key: Labels, since: float, until: float) -> dict[float, float]:
        held = sorted(self.held[key].items())
        return {t: v for t, v in held if since <= t <= until and v == v}

    def increase(self, key: Labels, since: float, until: float) -> float:
        found = list(self.series(key, since, until).values())
        return sum(b - a if b >= a else b for a, b in pairwise(found))

    def minute(self, key: Labels, start: float) -> list[float]:
        found = list(self.series(key, start, start + 59.999).values())
        return [min(found), sum(found) / len(found), max(found), found[-1]] if found else []


def play(steps: list[tuple[Labels, int, int, float]]) -> tuple[Window, Model]:
    window, model, now = Window((), trends={"m", "x_total"}), Model(), 1000.0
    for key, ago, forward, value in steps:
        now += forward * 7.0
        window.now = now
        time = now + min(ago, 0)
        model.add(key, time, value)
        window.add([Sample("m", key, time, value), Sample("x_total", key, time, value)])
        window.minutes("m", 600.0)
    window.now = max([now, *model.newest.values()])
    return window, model


@settings(max_examples=150, deadline=None)
@given(st.lists(readings, max_size=60))
def test_history_is_that_of_the_model(steps: list[tuple[Labels, int, int, float]]) -> None:
    window, model = play(steps)
    assert window.dropped == 2 * model.dropped
    for series in window.series("m", 500.0):
        key = labels(**series.labels)
        found = dict(zip(series.times.tolist(), series.values.tolist(), strict=True))
        assert found == model.series(key, window.now - 500.0, window.now)


@settings(max_examples=150, deadline=None)
@given(st.lists(readings, max_size=60))
def test_the_newest_value_is_that_of_the_model(steps: list[tuple[Labels, int, int, float]]) -> None:
    window, model = play(steps)
    speaking = {
        key: model.held[key][newest]
        for key, newest in model.newest.items()
        if window.now - newest <= 15.0 and model.held[key][newest] == model.held[key][newest]
    }
    found = {labels(**p.labels): p.value for p in window.latest("m")}
    assert speaking.items() <= found.items()
    assert all(model.held[key][model.newest[key]] == value for key, value in found.items())


@settings(max_examples=150, deadline=None)
@given(st.lists(readings, max_size=60))
def test_increase_is_that_of_the_model(steps: list[tuple[Labels, int, int, float]]) -> None:
    window, model = play(steps)
    for point in window.increase("x_total", 500.0):
        key = labels(**point.labels)
        assert point.value == model.increase(key, window.now - 500.0, window.now)


@settings(max_examples=150, deadline=None)
@given(st.lists(readings, max_size=60))
def test_minutes_are_those_of_the_model(steps: list[tuple[Labels, int, int, float]]) -> None:
    window, model = play(steps)
    end = window.now // 60.0 * 60.0
    for at, stat in enumerate(STATS):
        for series in window.minutes("m", 1200.0, stat):
            key = labels(**series.labels)
            made = {start: model.minute(key, start) for start in range(0, int(end), 60)}
            wanted = {start: minute[at] for start, minute in made.items() if minute}
            assert dict(zip(series.times, series.values, strict=True)) == wanted
