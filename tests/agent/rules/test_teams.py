import numpy as np
import pytest

from gpudiag.agent.analysis.stats import peers
from gpudiag.agent.rules import _teams
from gpudiag.agent.rules._teams import INFO, READS, STEP, STEPS, Team, excess, standing_out
from gpudiag.agent.window import Window
from gpudiag.probes import Sample, labels


@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_excess_is_what_the_peers_of_one_row_say(count):
    values = np.random.default_rng(count).random((5, count))
    for row, found in zip(values, excess(values), strict=True):
        assert found == pytest.approx(peers(row))


def team(values):
    ranks = tuple(str(n) for n in range(np.shape(values)[1]))
    return Team(
        "llama", ranks, 1, 5.0, 0.0, np.arange(float(len(values))), {STEP: np.array(values)}
    )


def named(values):
    return standing_out(team(values), np.array(values), 0.07, 0.75, 3.5)


def test_the_same_rank_in_every_bin_stands_out():
    found = named([[1.0, 1.2, 1.0, 1.01]] * 8)
    assert (found.rank, found.share) == ("1", 1.0)
    assert found.excess == pytest.approx(0.2)


def test_of_two_the_larger_stands_out():
    assert named([[1.0, 1.2]] * 8).rank == "1"


def test_a_few_readings_say_nothing_of_all_the_time():
    none = [np.nan, np.nan]
    assert named([[1.0, 1.2], none, none] * 4) is None
    assert named([[1.0, 1.2], none] * 4).rank == "1"


@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 1.05, 1.0]] * 8,
        [[1.0, 1.5, 1.0], [1.5, 1.0, 1.0]] * 4,
        [[1.0, 1.5, 1.0]] + [[1.0, 1.0, 1.0]] * 7,
        [[0.5, 1.2, 0.7, 1.1]] * 8,
        [[float("nan"), 1.0]] * 8,
    ],
    ids=["little", "in turns", "once", "all scatter", "unknown"],
)
def test_who_does_not_stand_out(rows):
    assert named(rows) is None


def window(steps=1000.0, seconds=200, layout="dp=4,tp=1,pp=1,ep=1"):
    kept = Window(READS)
    kept.now = float(seconds)
    samples = []
    for rank in range(4):
        who = labels(job="llama", rank=str(rank))
        info = labels(job="llama", rank=str(rank), world_size="4", layout=layout)
        for second in range(0, seconds, 1):
            samples.append(Sample(STEP, who, float(second), 0.25))
            samples.append(Sample(STEPS, who, float(second), steps + second))
        samples.append(Sample(INFO, info, float(seconds), 1.0))
    kept.add(sorted(samples, key=lambda s: s.time))
    return kept


def test_one_team_of_all_ranks():
    (found,) = _teams.teams(window(), 12)
    assert found.ranks == ("0", "1", "2", "3")
    assert len(found.ends) == 12
    assert found.step == 0.25


def test_the_stages_of_a_pipeline_are_teams_of_their_own():
    found = _teams.teams(window(layout="dp=2,tp=1,pp=2,ep=1"), 12)
    assert [(t.ranks, t.pipeline) for t in found] == [(("0", "1"), 2), (("2", "3"), 2)]


def test_ranks_that_each_do_another_work_are_no_team():
    assert list(_teams.teams(window(layout="dp=1,tp=1,pp=4,ep=1"), 12)) == []


def test_the_first_steps_do_not_count():
    (found,) = _teams.teams(window(steps=-100.0), 99)
    assert found.ends[0] - found.width == pytest.approx(110, abs=found.width)
