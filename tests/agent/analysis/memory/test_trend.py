from __future__ import annotations

import random

import pytest

from gpudiag.agent.analysis.memory.trend import judge, mann_kendall, slope
from tests.allocsim.floors import ROWS

SHAPES = {
    "leak": {"grows"},
    "flat": {"flat"},
    "warm-up": {"warmed up"},
    "sawtooth": {"swings"},
    "cannot tell": {"too few"},
    "caching": {"grows"},
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_fool_a_plain_trend_test(name):
    row = ROWS[name]
    assert judge(range(len(row.values)), row.sizes).shape in SHAPES[row.verdict]


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.verdict == "leak"])
def test_a_rate_holds_within_five_percent(name):
    row = ROWS[name]
    found = judge(range(len(row.values)), row.values)
    assert found.rate == pytest.approx(row.rate, rel=0.05)
    assert found.low <= row.rate <= found.high


@pytest.mark.parametrize("count", range(3, 8))
def test_few_levels_grow_only_while_each_is_higher(count):
    assert judge(range(count), [n * n for n in range(count)]).shape == "grows"
    assert judge(range(count), [*range(count - 1), count - 2]).shape != "grows"


def test_one_step_up_is_not_growth():
    assert judge(range(20), [0.0] * 10 + [8e6] * 10).shape == "stepped"


def test_what_falls_shrinks():
    assert judge(range(20), [float(-n) for n in range(20)]).shape == "shrinks"


def test_a_change_below_the_least_is_flat():
    assert judge(range(20), [float(n) for n in range(20)], least=30.0).shape == "flat"


@pytest.mark.parametrize("seed", range(40))
def test_noise_never_leaks(seed):
    chance = random.Random(seed)
    values = [chance.gauss(1000, 30) for _ in range(chance.choice((8, 16, 40, 200)))]
    assert judge(range(len(values)), values).shape != "grows"


def test_mann_kendall_of_eight_that_rise():
    assert mann_kendall(list(range(8))) == pytest.approx(27 / (8 * 7 * 21 / 18) ** 0.5)


def test_slope_stands_up_to_an_outlier():
    assert slope([0, 1, 2, 3, 4], [0, 2, 4, 600, 8])[0] == pytest.approx(2.0)
