import math

import numpy as np
import pytest

from gpudiag.agent.window import Window
from gpudiag.probes import Event, Sample, labels

A, B = labels(gpu="0", uuid="GPU-a"), labels(gpu="1", uuid="GPU-b")


def filled(
    values: list[float], *, metric: str = "m", spacing: float = 1.0, **kinds: object
) -> Window:
    window = Window({metric}, **kinds)  # type: ignore[arg-type]
    for second, value in enumerate(values):
        window.now = second * spacing
        window.add([Sample(metric, A, second * spacing, value)])
    return window


def test_latest_is_the_newest_value_of_each_series() -> None:
    window = Window(())
    window.add([Sample("m", A, 1.0, 5.0), Sample("m", B, 1.0, 6.0), Sample("m", A, 2.0, 7.0)])
    window.now = 2.0
    assert {p.labels["gpu"]: (p.time, p.value) for p in window.latest("m")} == {
        "0": (2.0, 7.0),
        "1": (1.0, 6.0),
    }


def test_a_match_picks_by_label_value() -> None:
    window = Window(())
    window.add([Sample("m", A, 1.0, 5.0), Sample("m", B, 1.0, 6.0)])
    window.now = 1.0
    assert window.value("m", uuid="GPU-b") == 6.0
    assert window.value("m", uuid="GPU-c") is None
    assert window.value("other") is None


def test_a_metric_asked_before_it_came_is_found_after() -> None:
    window = Window(())
    assert window.latest("m") == []
    window.add([Sample("m", A, 0.0, 5.0)])
    assert window.value("m") == 5.0


def test_a_caller_that_changes_its_answer_changes_no_other() -> None:
    window = filled([1.0])
    window.latest("m").clear()
    assert window.value("m") == 1.0


@pytest.mark.parametrize(("silence", "fresh"), [(15.0, True), (15.1, False)])
def test_a_series_is_stale_after_15_seconds(silence: float, fresh: bool) -> None:
    window = filled([1.0, 2.0])
    window.now = 1.0 + silence
    assert bool(window.latest("m")) is fresh
    assert bool(window.series("m", 60.0)) is fresh


@pytest.mark.parametrize(("silence", "fresh"), [(150.0, True), (151.0, False)])
def test_a_slow_series_is_stale_after_5_spacings(silence: float, fresh: bool) -> None:
    window = filled([1.0, 2.0, 3.0], spacing=30.0)
    window.now = 60.0 + silence
    assert bool(window.latest("m")) is fresh


def test_one_outage_does_not_make_a_fast_series_a_slow_one() -> None:
    window = filled([1.0, 2.0, 3.0])
    window.add([Sample("m", A, 600.0, 4.0)])
    window.now = 620.0
    assert window.latest("m") == []


def test_a_stale_marker_ends_a_series_at_once() -> None:
    window = filled([1.0, 2.0, math.nan])
    assert window.latest("m") == []
    assert window.series("m", 60.0) == []
    assert window.seen("m") == [dict(A)]


def test_after_a_stale_marker_the_series_may_speak_again() -> None:
    window = filled([1.0, math.nan, 3.0])
    (series,) = window.series("m", 60.0)
    assert series.values.tolist() == [1.0, 3.0]
    assert series.times.tolist() == [0.0, 2.0]


def test_of_duplicates_the_last_wins() -> None:
    window = filled([1.0, 2.0])
    window.add([Sample("m", A, 1.0, 9.0)])
    assert window.value("m") == 9.0
    assert window.series("m", 60.0)[0].values.tolist() == [1.0, 9.0]


def test_a_late_sample_is_inserted_in_its_place() -> None:
    window = filled([1.0] * 10, spacing=10.0)
    window.add([Sample("m", A, 35.0, 7.0)])
    series = window.series("m", 90.0)[0]
    assert series.times.tolist()[3:6] == [30.0, 35.0, 40.0]
    assert series.values[4] == 7.0
    assert window.value("m") == 1.0


def test_a_sample_later_than_a_minute_is_dropped_and_counted() -> None:
    window = filled([1.0] * 10, spacing=10.0)
    window.add([Sample("m", A, 29.9, 7.0), Sample("m", A, 30.0, 8.0)])
    assert window.dropped == 1
    assert 7.0 not in window.series("m", 90.0)[0].values


def test_a_reading_from_the_future_yields_to_the_present() -> None:
    window = filled([1.0, 2.0])
    window.add([Sample("m", A, 9000.0, 3.0)])
    window.now = 2.0
    window.add([Sample("m", A, 2.0, 4.0)])
    assert window.value("m") == 4.0
    assert window.series("m", 60.0)[0].values.tolist() == [1.0, 2.0, 4.0]
    assert window.dropped == 0


def test_a_span_has_both_its_edges() -> None:
    series = filled([float(n) for n in range(10)]).series("m", 3.0)[0]
    assert series.times.tolist() == [6.0, 7.0, 8.0, 9.0]


def test_a_metric_that_is_not_kept_has_no_history() -> None:
    window = Window(())
    window.add([Sample("m", A, 0.0, 5.0)])
    assert window.series("m", 60.0) == []
    assert window.minutes("m", 600.0) == []


def test_increase_bridges_every_reset() -> None:
    window = filled([10.0, 14.0, 1.0, 3.0, 0.0, 2.0], metric="x_total")
    (point,) = window.increase("x_total", 60.0)
    assert point.value == 4 + 1 + 2 + 0 + 2


def test_a_late_reading_from_before_a_reset_is_no_second_reset() -> None:
    window = filled([10.0, 14.0, 1.0, 3.0], metric="x_total")
    window.add([Sample("x_total", A, 1.5, 15.0)])
    assert window.increase("x_total", 60.0)[0].value == 4 + 1 + 1 + 2


def test_a_corrected_duplicate_is_no_reset() -> None:
    window = filled([10.0, 20.0], metric="x_total")
    window.add([Sample("x_total", A, 1.0, 12.0)])
    assert window.increase("x_total", 60.0)[0].value == 2.0


def test_one_sample_has_no_increase() -> None:
    assert filled([5.0], metric="x_total").increase("x_total", 60.0) == []


def test_a_gauge_that_falls_is_left_as_it_is() -> None:
    assert filled([5.0, 1.0]).series("m", 60.0)[0].values.tolist() == [5.0, 1.0]


def test_history_leaves_after_its_span_and_memory_stays_bounded() -> None:
    window = filled([1.0] * 3000, raw_seconds=600.0)
    assert 600 <= len(window.series("m", 1e9)[0].times) <= 1300


def test_an_answer_stays_as_it_was_when_the_window_moves_on() -> None:
    window = filled([1.0, 2.0])
    series = window.series("m", 60.0)[0]
    window.add([Sample("m", A, 0.5, 9.0), Sample("m", A, 1.0, 8.0)])
    assert series.values.tolist() == [1.0, 2.0]


def test_short_lived_series_do_not_pile_up() -> None:
    window = Window({"m"})
    for second in range(0, 40_000, 10):
        window.now = float(second)
        window.add([Sample(m, labels(pid=str(second)), second, 1.0) for m in ("m", "loose")])
    assert len(window.seen("loose")) <= 70
    assert len(window.seen("m")) <= 2100
    table = window._tables["m"]
    assert table.raw is not None
    assert len(table.raw.keys) <= 900


def test_a_series_that_was_folded_away_comes_back_whole() -> None:
    window = Window({"m"}, raw_seconds=600.0)
    window.add([Sample("m", A, 0.0, 5.0)])
    for second in range(0, 4000, 10):
        window.now = float(second)
        window.add([Sample("m", B, second, 1.0)])
    window.add([Sample("m", A, 3990.0, 6.0)])
    assert window.series("m", 60.0, gpu="0")[0].values.tolist() == [6.0]


def test_events_are_in_order_within_the_span() -> None:
    window = Window(())
    window.add([], [Event(t, "kmsg", f"at {t}", "xid") for t in (5.0, 1.0, 9.0, 30.0)])
    window.now = 9.0
    assert [e.time for e in window.events(8.0)] == [1.0, 5.0, 9.0]
    assert [e.time for e in window.events(5.0)] == [5.0, 9.0]


def test_events_are_picked_by_source_and_type() -> None:
    window = Window(())
    window.add([], [Event(1.0, "kmsg", "a", "xid"), Event(1.0, "agent", "b", "clock")])
    window.now = 1.0
    assert [e.line for e in window.events(60.0, source="kmsg")] == ["a"]
    assert [e.line for e in window.events(60.0, kind="clock")] == ["b"]


def test_events_are_bounded_by_size() -> None:
    window = Window(())
    window.add([], [Event(float(n), "kmsg", "x" * 4096) for n in range(2000)])
    window.now = 2000.0
    assert 450 < len(window.events(1e9)) <= 512


def test_fresh_gives_every_series_that_speaks() -> None:
    window = Window({"m"})
    window.add([Sample("m", A, 0.0, 1.0), Sample("n", B, 20.0, 2.0)])
    window.now = 20.0
    assert list(window.fresh()) == [("n", B, 20.0, 2.0)]


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
def test_a_clock_jump_leaves_ages_and_rates_as_they_were(jump: float) -> None:
    window = filled([0.0, 10.0, 20.0], metric="x_total")
    window.add([], [Event(1.0, "kmsg", "before")])
    window.rebase(jump)
    window.now = 3.0 + jump
    window.add([Sample("x_total", A, 3.0 + jump, 30.0)])
    series = window.series("x_total", 60.0)[0]
    assert series.times.tolist() == [jump, 1 + jump, 2 + jump, 3 + jump]
    assert window.increase("x_total", 60.0)[0].value == 30.0
    assert window.dropped == 0
    assert [e.time for e in window.events(10.0)] == [1.0 + jump]


@pytest.mark.parametrize("part", ["bucket", "sum", "count"])
def test_the_parts_of_a_histogram_are_counters(part: str) -> None:
    metric = f"gpudiag_serving_ttft_seconds_{part}"
    window = Window({metric})
    for time, value in ((1.0, 90.0), (2.0, 100.0), (3.0, 5.0)):
        window.add([Sample(metric, (), time, value)])
    window.now = 3.0
    assert [p.value for p in window.increase(metric, 10.0)] == [15.0]


def test_a_series_seen_once_is_as_patient_as_its_neighbours() -> None:
    window = Window(())
    for minute in range(3):
        window.add([Sample("gpudiag_gpu_power_watts", labels(gpu="0"), minute * 60.0, 1.0)])
        if minute == 0:
            window.add([Sample("gpudiag_gpu_power_watts", labels(gpu="1"), 0.0, 1.0)])
    window.now = 120.0
    assert {point.labels["gpu"] for point in window.latest("gpudiag_gpu_power_watts")} == {"0", "1"}
    window.now = 301.0
    assert {point.labels["gpu"] for point in window.latest("gpudiag_gpu_power_watts")} == {"0"}


def test_between_gives_stale_series_and_resets_as_they_were() -> None:
    window = filled([1.0, 5.0, 2.0, 3.0], metric="x_total")
    window.now = 500.0
    assert window.series("x_total", 1000.0) == []
    (one,) = window.between("x_total", 1.0, 2.0)
    assert (one.labels["gpu"], one.times.tolist(), one.values.tolist()) == (
        "0",
        [1.0, 2.0],
        [5.0, 2.0],
    )
    assert window.between("x_total", 100.0, 200.0) == []
    assert window.between("other", 0.0, 9.0) == []


def test_between_reaches_beyond_the_raw_samples_by_minutes() -> None:
    values = [float(n % 6) for n in range(720)]
    window = filled(values, spacing=10.0, trends={"m"}, raw_seconds=1800.0)
    (one,) = window.between("m", 0.0, window.now)
    raw = window.now - 1800.0
    assert one.times[0] < 120.0
    assert (np.diff(one.times) > 0).all()
    old = one.times < 3000.0
    assert set(np.diff(one.times[old])) == {60.0}
    assert set(one.values[old]) == {0.0}, "each minute's lowest"
    assert set(np.diff(one.times[one.times > raw + 120.0])) == {10.0}
