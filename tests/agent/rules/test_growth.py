import numpy as np
import pytest

from gpudiag.agent.analysis.stats import Floats
from gpudiag.agent.rules._growth import growth
from gpudiag.agent.window import Series

MIB = 2.0**20
BASE = 40_000 * MIB
T = np.arange(200.0)
NOISE = np.random.default_rng(1).normal(0.0, 1.0, len(T))


def minutes(values: Floats) -> Series:
    return Series({}, 60.0 * np.arange(len(values), dtype=np.float64), values)


@pytest.mark.parametrize(
    "extra",
    [
        0 * T,
        30 * NOISE,
        2000 * (1 - np.exp(-T / 10)),
        1536.0 * (T > 60),
        100.0 * ((T + 15) % 20),
        np.where(T % 4 < 2, 0.0, 900.0),
        100.0 * (T - np.array([0, 60, 100, 130])[np.digitize(T, [60, 100, 130])]),
        4000 * (1 - np.exp(-T / 60)) + 10 * NOISE,
    ],
    ids=["flat", "noise", "warm-up", "one step", "sawtooth", "lengths", "teeth", "long warm-up"],
)
def test_these_fool_a_plain_trend_test_and_are_no_growth(extra: Floats) -> None:
    assert growth(minutes(BASE + extra * MIB)) is None


@pytest.mark.parametrize(
    ("extra", "rate"),
    [
        (50 * T, 50),
        (5 * T + 30 * NOISE, 5),
        (20 * T + 100 * (T % 7), 20),
        (30 * np.maximum(T - 100, 0), 30),
        (512.0 * (T // 10), 51),
    ],
    ids=["leak", "noisy leak", "sawtooth and leak", "flat, then leak", "staircase"],
)
def test_these_grow(extra: Floats, rate: float) -> None:
    found = growth(minutes(BASE + extra * MIB))
    assert found is not None
    assert found.rate * 60.0 / MIB == pytest.approx(rate, rel=0.25)


def test_a_restart_begins_a_new_history() -> None:
    before = BASE + 50 * MIB * T
    assert growth(minutes(np.concatenate([before, [0.0], np.full(5, BASE)]))) is None


def test_the_second_rise_of_a_sawtooth_stays_under_the_first() -> None:
    teeth = BASE + 100 * MIB * np.concatenate([np.arange(60), np.arange(59)])
    assert growth(minutes(teeth)) is None


def wandering(minutes_to_forget: float, chance: np.random.Generator) -> Floats:
    """Four hours of minima of readings 15 s apart, 50 MiB of sigma, that forget at this pace."""
    keeps = np.exp(-1.0 / (4.0 * minutes_to_forget)) if minutes_to_forget else 0.0
    pushed = chance.normal(0.0, np.sqrt(1.0 - keeps**2), 960)
    walk = np.empty_like(pushed)
    now = chance.normal()
    for at, push in enumerate(pushed):
        now = walk[at] = keeps * now + push
    lowest: Floats = walk.reshape(-1, 4).min(axis=1)
    return BASE + 50 * MIB * lowest


@pytest.mark.parametrize(
    ("forgets", "most"), [(0.0, 0), (3.0, 0), (10.0, 1)], ids=["white", "3 min", "10 min"]
)
def test_flat_memory_that_is_noisy_or_wanders_is_no_growth(forgets: float, most: int) -> None:
    chance = np.random.default_rng(7)
    alarmed = 0
    for _ in range(30):
        values = wandering(forgets, chance)
        found = (growth(minutes(values[:now])) for now in range(10, len(values) + 1, 5))
        alarmed += any(one is not None and one.seconds >= 3600.0 for one in found)
    assert alarmed <= most


@pytest.mark.parametrize(("rate", "noise", "by"), [(5, 10, 40), (2, 50, 180)])
def test_noise_delays_the_finding_of_a_leak_but_does_not_hide_it(
    rate: float, noise: float, by: int
) -> None:
    chance = np.random.default_rng(3)
    for _ in range(10):
        readings = rate * np.arange(0.0, by, 0.25) + noise * chance.normal(size=4 * by)
        lowest = readings.reshape(-1, 4).min(axis=1)
        seen = range(10, by + 1, 2)
        assert any(growth(minutes(BASE + lowest[:now] * MIB)) for now in seen)


def test_a_long_floor_is_judged_by_the_part_that_is_there_at_both_ends_of_a_pace() -> None:
    day = BASE + MIB * np.arange(1500.0)
    found = [growth(minutes(day[:now])) for now in range(1400, 1500)]
    until = {one.since + one.seconds for one in found if one}
    assert all(found)
    assert len(until) <= 100 / 8 + 2
    assert max(until) >= 60.0 * (1500 - 8 - 1)
