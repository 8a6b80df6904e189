"""How the agent tells ends apart, and what is known of a rank that does not come."""

import os
import signal

import pytest

from gpudiag.agent.channel import endings
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


def test_a_killed_rank_is_told_as_killed(launch, taken, monkeypatch):
    # However late the parent's word comes, the death waits for it.
    monkeypatch.setattr(endings, "SETTLE_SECONDS", 60.0)
    launch("hf_style_loop").reach(10)
    os.kill(wait_for(lambda: pid_of(taken, "0")), signal.SIGKILL)
    [line] = wait_for(lambda: taken.lines("exit"))
    assert "rank=0 code=-9 signal=SIGKILL" in line
    assert "oom-kill" not in line


def test_hang_evidence_names_the_rank_that_did_not_come(launch, channel, taken):
    launch("ddp_transformer", "--slow-rank", "1", "--leave-collective-at", "30", ranks=2)
    wait_for(lambda: [newest(taken, "steps_total", rank) for rank in "01"] == [29, 29], seconds=60)
    wait_for(lambda: apart(taken))
    answers = channel.command("ddp_transformer", "dump_stacks", {})
    assert [answer.ok for answer in answers] == [True, True]
    wait_for(lambda: len(taken.lines("hang_dump")) == 2)
    stacks = {e.fields["rank"]: e.line for e in list(taken.events) if e.type == "hang_dump"}
    assert "misbehave.py" in stacks["1"]
    assert "backward" in stacks["0"]


def newest(taken, metric, rank, **labels):
    """The newest value of a series, None before the first."""
    wanted = {"rank": rank, **labels}.items()
    samples = [s for s in list(taken.samples) if s.metric == f"gpudiag_train_{metric}"]
    return next((s.value for s in reversed(samples) if wanted <= dict(s.labels).items()), None)


def apart(taken):
    """Whether rank 0 waits in a collective that rank 1 has not come to, and all before are done."""
    came = [newest(taken, "collective_sequence", r, state="enqueued") for r in "01"]
    completed = newest(taken, "collective_sequence", "0", state="completed")
    return None not in came and completed == came[1] == came[0] - 1
