import random
from typing import Any

import pytest

from gpudiag.agent.analysis.floor import Floor, Judgement, judge, time_left
from gpudiag.agent.analysis.growth import growth
from tests.allocsim.floors import ROWS, Row
from tests.allocsim.rules import MIB
from tests.allocsim.scenarios import BENIGN, LEAKS


def judged(row: Row) -> Judgement:
    times = [float(n) for n in range(len(row.values))]
    if row.cache:
        flat = [row.sizes[0]] * len(times)
        return judge(Floor(times, flat, row.sizes))
    return judge(Floor(times, row.sizes))


@pytest.mark.parametrize("name", ROWS)
def test_every_series_that_fools_a_trend_test(name: str) -> None:
    row = ROWS[name]
    assert judged(row).kind == row.verdict


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.rate])
def test_its_rate_where_it_grows(name: str) -> None:
    grown = judged(ROWS[name]).grown
    assert grown is not None
    assert grown.rate / MIB == pytest.approx(ROWS[name].rate, rel=0.25)
    assert grown.low / MIB <= ROWS[name].rate <= grown.high / MIB * 1.02


@pytest.mark.parametrize("make", LEAKS, ids=lambda make: make.__name__)
def test_planted_leaks_by_the_tenth_cycle(make: Any) -> None:
    case = make()
    said = judge(Floor(case.steps, case.allocated, case.reserved, case.used), least=512)
    assert said.kind == case.truth.verdict
    assert said.grown is not None
    assert said.grown.rate == pytest.approx(case.truth.per_step, rel=0.05)


@pytest.mark.parametrize("make", BENIGN, ids=lambda make: make.__name__)
def test_none_of_these_is_called_a_leak(make: Any) -> None:
    case = make()
    said = judge(Floor(case.steps, case.allocated, case.reserved, case.used), least=512)
    assert said.kind not in ("leak", "outside torch")
    assert said.kind in (case.truth.verdict, "warm-up")


def test_a_cache_that_had_to_be_emptied_is_fragmented() -> None:
    row = ROWS["staircase of the cache"]
    times = [float(n) for n in range(len(row.values))]
    said = judge(Floor(times, [row.sizes[0]] * len(times), row.sizes, retries=3))
    assert said.kind == "fragmentation"


def test_seven_readings_are_too_few() -> None:
    said = judge(Floor([float(n) for n in range(7)], [n * 100.0 * MIB for n in range(7)]))
    assert (said.kind, said.missing) == ("cannot tell", ("1 more readings at the same phase",))


def test_time_left_has_a_band() -> None:
    row = ROWS["leak 0.5, noise 30"]
    grown = growth([float(n) for n in range(len(row.values))], row.sizes)
    assert grown is not None
    left = time_left(1000 * MIB, grown)
    assert left.soonest <= left.expected
    assert left.latest is None or left.expected <= left.latest
    assert left.expected == pytest.approx(2000, rel=0.25)


def test_any_series_gets_an_answer() -> None:
    chance = random.Random(2)
    for _ in range(300):
        count = chance.randrange(30)
        values = [chance.choice((0.0, 1.0, chance.random() * 1e12)) for _ in range(count)]
        assert 0.0 < judge(Floor([float(n) for n in range(count)], values)).confidence < 1.0
