import pytest

from gpudiag.agent.channel.lags import StepLags, fresh, lags

MS = 1_000_000


def came(*milliseconds):
    return {rank: (ms * MS, None) for rank, ms in enumerate(milliseconds)}


def steps(times, step_seconds, start=0):
    """What one group's collectives come to, given the arrivals (ms) at each."""
    sums = StepLags()
    added = [sums.add(start + n, came(*row), step_seconds) for n, row in enumerate(times)]
    return [each for each in added if each is not None]


def test_who_waited_least_came_last_where_durations_are_known():
    late = lags({0: (0, 60 * MS), 1: (0, 10 * MS)})
    assert late == {0: 0.0, 1: pytest.approx(0.05)}


def test_a_lag_is_new_after_a_collective_that_all_waited_for():
    assert fresh(came(100, 150), came(0, 50)) == {0: 0.0, 1: pytest.approx(0.05)}


def test_a_delay_that_shows_in_two_collectives_on_the_way_counts_once():
    """Buckets of DDP: nobody waits between them."""
    assert fresh(came(10, 60), came(0, 50)) == {0: 0.0, 1: 0.0}


def test_one_late_collective_of_many_is_the_delay_of_the_step():
    """Sharded training: all others follow one on which all waited."""
    step = [(0, 0), (10, 60), (70, 70), (80, 80)]
    times = [(a + 100 * n, b + 100 * n) for n in range(20) for a, b in step]
    found = steps(times, 0.1)
    assert len(found) >= 14
    assert all(late == {0: 0.0, 1: pytest.approx(0.05)} for late in found)


def test_without_the_time_of_a_step_each_collective_is_one():
    assert steps([(0, 5), (10, 17)], None) == [
        {0: 0.0, 1: pytest.approx(0.005)},
        {0: 0.0, 1: pytest.approx(0.007)},
    ]


def test_what_lies_on_both_sides_of_a_gap_is_no_step():
    sums = StepLags()
    for number in range(30):
        sums.add(number, came(10 * number, 10 * number), 0.05)
    assert sums.add(100, came(1000, 1040), 0.05) is None


def test_of_a_step_with_very_many_collectives_a_part_stands_for_all():
    times = [(n, n + 0.5) for n in range(0, 5000)]
    late = steps(times, 1.0)[-1]
    assert late[1] == pytest.approx(0.5, rel=0.05)
