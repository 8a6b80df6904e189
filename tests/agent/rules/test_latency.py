import numpy as np
import pytest

from gpudiag.agent.rules._latency import Counts, Quantile, spell

TIMES = np.arange(0.0, 600.0, 60.0)


def test_a_quantile_lies_inside_its_bucket() -> None:
    within = np.array([[50.0], [100.0], [100.0]])
    found = Counts(np.array([1.0, 2.0, np.inf]), TIMES, np.zeros((3, 10)))
    assert found.quantiles(within, 0.75)[0] == pytest.approx(1.5)


def test_what_exceeds_the_last_edge_is_told_as_that_edge() -> None:
    within = np.array([[0.0], [1.0], [100.0]])
    found = Counts(np.array([1.0, 2.0, np.inf]), TIMES, np.zeros((3, 10)))
    assert found.quantiles(within, 0.95)[0] == 2.0


def test_the_past_leaves_out_the_half_that_may_be_in_trouble() -> None:
    when = spell(np.arange(0.0, 3660.0, 60.0), 600.0)
    assert when is not None
    assert (when.since, when.first, when.last) == (3000.0, 0.0, 1500.0)


def test_within_the_range_of_its_own_past_nothing_moved() -> None:
    assert not Quantile(0.95, usual=1.0, now=3.0, most=2.9, resolved=True).moved(2.0)
    assert Quantile(0.95, usual=1.0, now=3.0, most=1.2, resolved=True).moved(2.0)
