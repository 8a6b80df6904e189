import math
import os

import pytest

from gpudiag.agent.channel.listening import Peer
from gpudiag.agent.channel.packets import Arrivals, Bye, Exit, Happened, Metrics
from gpudiag.agent.channel.roster import Roster
from tests.agent.channel.hook import hello

AWAY, HERE = Peer(0, 0, 0), Peer(42, 0, 0)


@pytest.fixture
def roster():
    return Roster(lambda pid: f"GPU-{pid}")


def joined(roster, rank, pid):
    return roster.hello(None, hello(rank, pid), AWAY, 1.0)


def loss(value=1.0):
    return Metrics(time=1.0, values=[("gpudiag_train_loss", {}, value)])


def events(roster, now):
    roster.tick(now)
    return roster.drain()[1]


def test_a_process_is_found_on_its_gpu(roster):
    roster.hello(None, hello(0, 1), Peer(42, 0, 0), 1.0)
    samples, _ = roster.drain()
    assert dict(samples[0].labels)["uuid"] == "GPU-42"


def test_the_clean_end_of_all_ends_the_job(roster):
    one, two = joined(roster, 0, 1), joined(roster, 1, 2)
    roster.take(one, Bye(), 2.0)
    assert [e.type for e in roster.drain()[1]] == ["exit"]
    roster.take(two, Bye(), 3.0)
    last = roster.drain()[1][-1]
    assert (last.type, last.fields["job"]) == ("job_ended", "llama")


def test_one_death_and_the_job_has_not_ended_well(roster):
    one, two = joined(roster, 0, 1), joined(roster, 1, 2)
    roster.lost(one, 2.0)
    roster.take(two, Bye(), 3.0)
    assert [e.type for e in roster.drain()[1]] == ["exit"]
    assert [e.line for e in events(roster, 9.0) + events(roster, 10.0)] == [
        "exit pid=1 rank=0 reason=lost"
    ]


def test_after_its_end_a_process_says_nothing(roster):
    one = joined(roster, 0, 1)
    roster.take(one, Bye(), 2.0)
    roster.drain()
    roster.take(one, loss(), 3.0)
    roster.lost(one, 3.0)
    assert roster.drain() == ([], [])


def test_a_restarted_rank_goes_on_with_its_series(roster):
    old = joined(roster, 0, os.getpid())
    roster.take(old, loss(), 1.0)
    new = roster.hello(None, hello(0, 2), AWAY, 2.0)
    assert new.job.startswith("llama~")
    roster.lost(old, 2.0)
    again = joined(roster, 0, 3)
    roster.take(again, loss(), 3.0)
    samples, _ = roster.drain()
    assert [s.value for s in samples if s.metric == "gpudiag_train_loss"] == [
        1.0,
        pytest.approx(math.nan, nan_ok=True),
        1.0,
    ]


def test_a_rank_learned_later_ends_the_series_of_the_first_guess(roster):
    who = joined(roster, 0, 1)
    roster.take(who, loss(), 1.0)
    roster.drain()
    changed = roster.hello(who, hello(3, 1), AWAY, 2.0)
    assert changed.rank == 3
    assert math.isnan(roster.drain()[0][0].value)
    assert [rank.rank for rank in roster.ranks()] == [3]


def test_the_parents_word_may_come_before_the_hang_up(roster):
    joined(roster, 0, 42)
    roster.parent_told(Exit(time=2.0, pid=42, code=3), 2.0)
    assert [e.line for e in events(roster, 2.0)] == ["exit pid=42 rank=0 code=3"]


def test_events_carry_who_said_them(roster):
    who = joined(roster, 5, 42)
    roster.take(who, Happened(time=1.0, type="oom", line="CUDA out", fields={"rank": 9}), 1.0)
    (event,) = roster.drain()[1]
    assert (event.source, event.fields["rank"]) == ("torch", "5")


def test_arrivals_are_reported_with_what_became_of_packets(roster):
    ranks = [joined(roster, n, n + 1) for n in range(2)]
    roster.tick(1.0)
    for _ in range(2):
        for who in ranks:
            entry = (7, who.rank * 50_000_000, None)
            roster.take(who, Arrivals(time=1.0, entries=[entry]), 2.0)
    roster.drain()
    roster.tick(9.0)
    found = {s.metric: s.value for s in roster.drain()[0] if ("rank", "1") in s.labels}
    assert found["gpudiag_train_arrival_lag_seconds"] == pytest.approx(0.05)


OUTSIDE = "gpudiag_torch_non_torch_bytes"


def reserved(time):
    return Metrics(time=time, values=[("gpudiag_torch_reserved_bytes", {}, 4e9)])


def outside(peer=HERE, uuid="GPU-a", packet=reserved):
    memory = {(42, "GPU-a"): (5.5, 5e9)}
    roster = Roster(memory_of=lambda *which: memory.get(which))
    who = roster.hello(None, hello(0, 42, uuid=uuid), peer, 1.0)
    for time in (5.0, 6.0):
        roster.take(who, packet(time), time)
    roster.lost(who, 7.0)
    found = [s for s in roster.drain()[0] if s.metric == OUTSIDE]
    return [(dict(s.labels), s.time, s.value) for s in found if s.value == s.value], len(found)


def test_what_a_rank_holds_outside_torch_until_its_end():
    assert outside() == ([({"job": "llama", "rank": "0"}, 5.5, 1e9)], 2)


@pytest.mark.parametrize(
    "lacks",
    [
        {"uuid": "GPU-b"},
        {"uuid": None},
        {"peer": AWAY},
        {"packet": lambda time: loss()},
    ],
    ids=["another GPU", "no GPU", "a foreign namespace", "nothing reserved"],
)
def test_what_a_rank_holds_outside_torch_is_absent_without(lacks):
    assert outside(**lacks) == ([], 0)
