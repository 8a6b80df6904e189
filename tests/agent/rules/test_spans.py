from collections.abc import Sequence

import numpy as np
import pytest

from gpudiag.agent.rules._spans import held_since, mostly_above, steady_slope, tail
from gpudiag.agent.window import Series


def series(values: Sequence[float], every: float = 10.0) -> Series:
    return Series(
        {}, np.arange(len(values), dtype=np.float64) * every, np.array(values, dtype=np.float64)
    )


def test_held_since_the_last_break() -> None:
    s = series([1, 0, 1, 1])
    assert held_since(s, s.values > 0) == 20.0


def test_nothing_held_that_the_newest_sample_denies() -> None:
    s = series([1, 1, 0])
    assert held_since(s, s.values > 0) is None


def test_the_tail_must_be_there_whole() -> None:
    assert tail(series([1] * 4), 60.0) is None
    whole = tail(series([1] * 20), 60.0)
    assert whole is not None
    assert len(whole.times) == 7


def test_slow_sampling_stretches_the_tail_to_three_samples() -> None:
    last = tail(series([1, 2, 3, 4], every=60.0), 30.0)
    assert last is not None
    assert list(last.values) == [2, 3, 4]


def test_one_dip_does_not_end_pressure_but_a_spike_does_not_make_it() -> None:
    assert mostly_above(series([0.5] * 8 + [0.1] + [0.5] * 4), 90.0, 0.4)
    assert not mostly_above(series([0.0] * 12 + [0.9] * 4), 90.0, 0.4)


@pytest.mark.parametrize(
    ("values", "slope"),
    [
        ([100.0 - n for n in range(31)], -0.1),
        ([100.0] * 15 + [50.0] * 15, 0.0),
        ([100.0] * 10 + list(np.linspace(100, 50, 10)) + [50.0] * 10, 0.0),
        ([100.0, 90.0, 80.0] * 10, 0.0),
    ],
    ids=["ramp", "step", "ramp that ended", "sawtooth"],
)
def test_only_a_trend_of_the_whole_span_is_a_slope(values: Sequence[float], slope: float) -> None:
    assert steady_slope(series(values)) == pytest.approx(slope, abs=1e-6)
