"""What the agent asks of a training script: leave and come back, or a smaller micro-batch."""

from __future__ import annotations

import re

import pytest

from tests.running import wait_for

# Slow enough for a command to come and be taken before the run ends.
SLOW = ("--steps", "450", "--slow-rank", "0", "--slow-ms", "30")
STEPS = (*SLOW, "--log-every", "1", "--eval-every", "1000", "--save-every", "1000")


def losses(output):
    """Loss by rank and step, as printed."""
    found = re.findall(r"^rank (\d+) step (\d+) loss (\S+)$", output, re.MULTILINE)
    return {(int(rank), int(step)): float(loss) for rank, step, loss in found}


def asked(channel, taken, training, name, args=None):
    """The command, once the job is known to step; that every rank took it is checked."""
    training.reach(5)
    wait_for(lambda: taken.values("gpudiag_train_step_seconds"))
    answers = channel.command("llama", name, args or {}, timeout=60.0)
    # On a loaded machine the step may be past before the command is there; then nobody took it.
    while answers and all("is past" in answer.detail for answer in answers):
        answers = channel.command("llama", name, args or {}, timeout=60.0)
    assert [answer.ok for answer in answers] == [True] * len(answers), answers


@pytest.fixture
def watched(start, socket):
    """Start the loop with the agent's channel beside it."""

    def one(*flags, **options):
        run = ("--socket", str(socket), "--job", "llama")
        return start("hf_style_loop", *STEPS, *flags, run=run, **options)

    return one


@pytest.mark.parametrize("ranks", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_job_that_left_goes_on_as_if_it_had_not(start, watched, channel, taken, tmp_path, ranks):
    alone = start("hf_style_loop", *STEPS, ranks=ranks)
    training = watched("--out", str(tmp_path), ranks=ranks)
    asked(channel, taken, training, "checkpoint_and_exit")
    assert training.end() == (1 if ranks else 75)
    # It leaves from within the optimizer's step: that step is done, and its loss not printed.
    left = training.step() + 1
    again = watched("--out", str(tmp_path), ranks=ranks)
    assert (again.end(), alone.end()) == (0, 0)
    assert f"resumes after step {left}\n" in again.output()
    assert min(step for _, step in losses(again.output())) == left + 1
    undisturbed = losses(alone.output())
    expected = {key: loss for key, loss in undisturbed.items() if key[1] != left}
    assert {**losses(training.output()), **losses(again.output())} == expected


def test_a_smaller_micro_batch_keeps_the_global_one_and_is_taken_back(
    start, watched, channel, taken
):
    alone = start("hf_style_loop", *STEPS)
    training = watched()
    asked(channel, taken, training, "micro_batch", {"factor": 4})
    asked(channel, taken, training, "micro_batch", {"factor": 0.25})
    (refused,) = channel.command("llama", "micro_batch", {"factor": 3}, timeout=60.0)
    assert not refused.ok
    assert (training.end(), alone.end()) == (0, 0)
    assert losses(training.output()) == pytest.approx(losses(alone.output()), rel=0.02)
