import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudiag.agent.analysis import stats

HOUR = np.arange(0.0, 3600.0, 60.0)
NOISE = np.random.default_rng(7).normal(0.0, 1.0, 60)
finite = st.floats(-1e6, 1e6, allow_nan=False)


def test_a_straight_line_has_its_slope_and_level() -> None:
    slope = stats.theil_sen(HOUR, 5.0 + 0.5 * HOUR)
    assert slope is not None
    assert slope.value == pytest.approx(0.5)
    assert slope.level == pytest.approx(5.0 + 0.5 * HOUR[-1])
    assert slope.low == pytest.approx(0.5)


def test_a_quarter_of_outliers_moves_the_slope_little() -> None:
    values = 2.0 * HOUR + NOISE
    values[::4] = 1e9
    slope = stats.theil_sen(HOUR, values)
    assert slope is not None
    assert slope.value == pytest.approx(2.0, rel=0.05)


def test_noise_without_a_slope_includes_zero() -> None:
    slope = stats.theil_sen(HOUR, NOISE)
    assert slope is not None
    assert slope.low < 0.0 < slope.high


def test_the_interval_covers_the_true_slope_about_as_often_as_said() -> None:
    random = np.random.default_rng(3)
    spans = [stats.theil_sen(HOUR, 0.01 * HOUR + random.normal(0, 1, 60)) for _ in range(300)]
    covered = sum(s is not None and s.low <= 0.01 <= s.high for s in spans)
    assert 0.91 <= covered / 300 <= 0.99


def test_a_slope_over_uneven_times_is_per_second() -> None:
    times = np.array([0.0, 1.0, 10.0, 11.0, 100.0])
    slope = stats.theil_sen(times, 3.0 * times)
    assert slope is not None
    assert slope.value == pytest.approx(3.0)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_points_have_no_slope(count: int) -> None:
    assert stats.theil_sen(HOUR[:count], HOUR[:count]) is None
    assert stats.trend(HOUR[:count], HOUR[:count]) is None


def test_equal_times_have_no_slope() -> None:
    assert stats.theil_sen(np.zeros(5), np.arange(5.0)) is None


def test_many_points_are_thinned_to_a_bounded_cost() -> None:
    times = np.arange(0.0, 20_000.0)
    few, _ = stats.thin(times, times)
    assert 100 <= len(few) <= stats.MAX_POINTS
    slope = stats.theil_sen(times, 7.0 * times)
    assert slope is not None
    assert slope.value == pytest.approx(7.0)


def test_trend_of_a_rise_is_one_and_significant() -> None:
    found = stats.trend(HOUR, HOUR)
    assert found is not None
    assert found.tau == 1.0
    assert found.p < 1e-12


def test_trend_matches_the_formula_by_hand() -> None:
    # 19 pairs rise and 2 fall: S = 17; without ties var = n (n - 1) (2 n + 5) / 18.
    values = np.array([10.0, 15.0, 14.0, 20.0, 19.0, 25.0, 30.0])
    found = stats.trend(np.arange(7.0), values)
    assert found is not None
    assert found.tau == pytest.approx(17 / 21)
    assert found.z == pytest.approx(16 / math.sqrt(7 * 6 * 19 / 18))


def test_trend_of_a_constant_is_none_at_all() -> None:
    found = stats.trend(HOUR, np.full(60, 4.0))
    assert found is not None
    assert (found.tau, found.z, found.p) == (0.0, 0.0, 1.0)


def test_false_alarms_of_the_trend_stay_near_their_rate() -> None:
    random = np.random.default_rng(11)
    tests = [stats.trend(HOUR, random.normal(0, 1, 60)) for _ in range(400)]
    assert 0.02 <= sum(t is not None and t.p < 0.05 for t in tests) / 400 <= 0.09


def test_a_step_is_found_where_it_is() -> None:
    values = np.where(HOUR < 1200.0, 1980.0, 1400.0) + NOISE
    (step,) = stats.steps(HOUR, values)
    assert step.time == 1200.0
    assert step.before == pytest.approx(1980.0, abs=1.0)
    assert step.after == pytest.approx(1400.0, abs=1.0)


def test_two_steps_are_both_found() -> None:
    values = np.where((HOUR >= 1200.0) & (HOUR < 2400.0), 50.0, 0.0) + NOISE
    assert [s.time for s in stats.steps(HOUR, values)] == [1200.0, 2400.0]


def test_noise_and_short_series_have_no_step() -> None:
    assert stats.steps(HOUR, NOISE) == []
    assert stats.steps(HOUR[:9], np.arange(9.0)) == []


def test_one_outlier_is_no_step() -> None:
    values = NOISE.copy()
    values[30] = 1e6
    assert stats.steps(HOUR, values) == []


def test_two_peers_deviate_by_their_difference() -> None:
    assert stats.peers(np.array([70.0, 82.0])).tolist() == [-12.0, 12.0]


def test_the_outlier_does_not_pull_its_own_yardstick() -> None:
    assert stats.peers(np.array([1.0, 100.0, 1.0])).tolist() == [-49.5, 99.0, -49.5]


@given(st.lists(finite, min_size=2, max_size=12))
def test_peers_equal_the_plain_definition(values: list[float]) -> None:
    plain = [v - float(np.median(values[:i] + values[i + 1 :])) for i, v in enumerate(values)]
    assert stats.peers(np.array(values)) == pytest.approx(plain, abs=1e-6)


def test_one_value_has_no_peers() -> None:
    with pytest.raises(ValueError, match="at least two"):
        stats.peers(np.array([1.0]))


def test_quantile_median_and_mad() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 100.0])
    assert stats.quantile(values, 0.25) == 2.0
    assert stats.median(values) == 3.0
    assert stats.mad(values) == 1.0


def test_no_values_have_no_median() -> None:
    with pytest.raises(ValueError, match="no values"):
        stats.median(np.array([]))
