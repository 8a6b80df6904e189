"""How the agent tells ends apart, and what is known of a rank that does not come."""

import os
import signal

import pytest

from tests.running import wait_for

ENDLESS = ("--steps", "1000000")


@pytest.fixture
def launch(channel, socket, start):
    def one(script, *flags, **options):
        return start(script, *ENDLESS, *flags, run=("--socket", str(socket)), **options)

    return one


def pid_of(taken, rank):
    infos = taken.labels("gpudiag_train_info")
    return next((int(of["pid"]) for of in infos if of["rank"] == rank), None)


def test_a_killed_rank_is_told_as_killed(launch, taken):
    launch("hf_style_loop").reach(10)
    os.kill(pid_of(taken, "0"), signal.SIGKILL)
    [line] = wait_for(lambda: taken.lines("exit"))
    assert "rank=0 code=-9 signal=SIGKILL" in line
    assert "oom-kill" not in line


def test_hang_evidence_names_the_rank_that_did_not_come(launch, channel, taken):
    launch("ddp_transformer", "--slow-rank", "1", "--leave-collective-at", "30", ranks=2)
    before = wait_for(lambda: steady(taken), seconds=60, every=3.0)
    assert before["1"]["enqueued"] < before["0"]["enqueued"]
    assert before["0"]["completed"] < before["0"]["enqueued"]
    answers = channel.command("ddp_transformer", "dump_stacks", {})
    assert [answer.ok for answer in answers] == [True, True]
    stacks = {dict(e.fields)["rank"]: e.line for e in taken.events if e.type == "hang_dump"}
    assert "misbehave.py" in stacks["1"]
    assert "misbehave.py" not in stacks["0"]


def steady(taken):
    """The collective sequence numbers of each rank by state, once they stand still."""
    found = [s for s in taken.samples if s.metric == "gpudiag_train_collective_sequence"]
    by_rank = {}
    for sample in found:
        labels = dict(sample.labels)
        by_rank.setdefault(labels["rank"], {})[labels["state"]] = sample.value
    return by_rank
