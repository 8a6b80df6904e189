"""Training goes as it goes without the hooks, bit by bit, whatever the agent does."""

import signal

import pytest

OFF = {"GPUDIAG_DISABLE": "1"}
SHORT = ("--steps", "25", "--log-every", "1")


def both(start, script, ranks, run=()):
    """The losses of a run without and of one with the hooks, at the same time."""
    plain = start(script, *SHORT, ranks=ranks, run=run, environment=OFF)
    hooked = start(script, *SHORT, ranks=ranks, run=run)
    assert (plain.end(), hooked.end()) == (0, 0), hooked.output()
    return plain.losses(), hooked.losses()


def test_losses_are_bit_identical_with_and_without_the_hooks(start, channel, socket, taken):
    plain, hooked = both(start, "ddp_transformer", 2, ("--socket", str(socket)))
    assert len(plain) == 50
    assert hooked == plain
    assert {rank["rank"] for rank in taken.labels("gpudiag_train_loss")} == {"0", "1"}


@pytest.mark.long
@pytest.mark.parametrize("ranks", [0, 2])
@pytest.mark.parametrize("script", ["hf_style_loop", "rl_phases"])
def test_losses_of_the_other_loops_are_too(start, script, ranks):
    plain, hooked = both(start, script, ranks)
    assert len(plain) == 25 * max(ranks, 1)
    assert hooked == plain


@pytest.mark.long
def test_losses_of_sharded_training_are_too(start, channel, socket):
    plain, hooked = both(start, "fsdp2", 2, ("--socket", str(socket)))
    assert hooked == plain


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_training_goes_on_when_the_agent_does_not(agent, start, number):
    told = {"GPUDIAG_SOCKET": str(agent.socket)}
    training = start("hf_style_loop", "--steps", "150", environment=told)
    training.reach(20)
    agent.send(number)
    assert training.end() == 0, training.output()
    assert training.step() == 150


def test_training_needs_no_agent(start, tmp_path):
    training = start("hf_style_loop", *SHORT, run=("--socket", str(tmp_path / "none.sock")))
    assert training.end() == 0
    assert "gpudiag" not in training.output()
