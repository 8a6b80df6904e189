import pytest

from gpudiag.agent.channel.arrivals import LAG, LAST, ArrivalComparison
from gpudiag.agent.channel.packets import Arrivals

MS = 1_000_000


def packet(entries, group="default"):
    return Arrivals(time=0.0, group=group, entries=entries)


def said(comparison, now=1.0):
    return {(s.metric, dict(s.labels)["rank"]): s.value for s in comparison.report(now)}


def feed(comparison, times, start=0):
    """One list of arrivals (ms) per rank."""
    for rank, row in enumerate(times):
        entries = [(start + i, ms * MS, None) for i, ms in enumerate(row)]
        comparison.add("llama", rank, packet(entries), 0.0)


def test_the_late_rank_is_behind_by_its_delay():
    comparison = ArrivalComparison()
    feed(comparison, [[0], [0], [0]])
    comparison.report(0.0)
    feed(comparison, [[100, 200], [150, 250], [101, 201]], start=1)
    found = said(comparison)
    assert found[LAG, "1"] == pytest.approx(0.05)
    assert found[LAST, "1"] == 1.0
    assert found[LAST, "2"] == 0.0
    assert found[LAG, "0"] == 0.0


def test_overlapping_packets_count_once():
    comparison = ArrivalComparison()
    for _ in range(3):
        feed(comparison, [[0, 100], [10, 110]])
    assert said(comparison)[LAG, "1"] == pytest.approx(0.01)
    feed(comparison, [[0, 100], [10, 110]])
    assert said(comparison) == {}


def test_a_number_that_one_rank_has_not_told_yet_waits_for_it():
    comparison = ArrivalComparison()
    feed(comparison, [[0], [0]])
    comparison.report(0.0)
    comparison.add("llama", 0, packet([(1, 0, None)]), 1.0)
    assert said(comparison) == {}
    comparison.add("llama", 1, packet([(1, 7 * MS, None)]), 2.0)
    assert said(comparison)[LAST, "1"] == 1.0


def test_groups_and_jobs_do_not_mix():
    comparison = ArrivalComparison()
    comparison.add("llama", 0, packet([(1, 0, None)], "tp"), 0.0)
    comparison.add("llama", 1, packet([(1, 9 * MS, None)], "dp"), 0.0)
    comparison.add("other", 1, packet([(1, 9 * MS, None)], "tp"), 0.0)
    assert said(comparison) == {}


def test_a_rank_that_has_ended_is_not_waited_for():
    comparison = ArrivalComparison()
    feed(comparison, [[0], [1], [2]])
    comparison.forget("llama", 2)
    comparison.report(0.0)
    feed(comparison, [[5], [6]], start=1)
    assert said(comparison)[LAST, "1"] == 1.0


def test_numbers_that_begin_again_are_compared_anew():
    comparison = ArrivalComparison()
    feed(comparison, [[0], [1]], start=5000)
    comparison.report(0.0)
    feed(comparison, [[0], [3]], start=0)
    assert said(comparison)[LAG, "1"] == pytest.approx(0.003)


def test_what_is_never_completed_does_not_pile_up():
    comparison = ArrivalComparison()
    feed(comparison, [[0], [0]])
    for number in range(1, 5000):
        comparison.add("llama", 0, packet([(number, 0, None)]), 0.0)
    (group,) = comparison._groups.values()
    assert len(group.open) <= 1024
