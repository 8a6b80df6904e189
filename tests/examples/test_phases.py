"""The loops of one process: phases, evaluation, checkpoints, leaks and the collector's pauses."""

from pathlib import Path

import pytest

from tests.running import wait_for

PHASES = {"rollout", "reward", "reference", "update"}


@pytest.fixture
def launch(channel, socket, start):
    def one(script, *flags):
        return start(script, *flags, environment={"GPUDIAG_SOCKET": str(socket)})

    return one


def largest(taken, metric):
    return max(v for v in taken.values(f"gpudiag_train_{metric}") if v == v)


def test_the_phases_of_reinforcement_learning_are_seen(launch, taken):
    assert launch("rl_phases", "--steps", "60").end() == 0
    wait_for(lambda: taken.lines("exit"))
    samples = [s for s in list(taken.samples) if s.metric == "gpudiag_train_phase_seconds"]
    assert {dict(s.labels)["phase"] for s in samples} == PHASES
    spent = [(dict(s.labels)["phase"], s.value) for s in samples if s.value == s.value]
    # The least of several seconds: what else the machine does may come into any phase.
    least = {phase: min(v for of, v in spent if of == phase) for phase in PHASES}
    assert least["reward"] < least["update"] < largest(taken, "step_seconds")
    assert largest(taken, "steps_total") == 60


def test_a_trainers_loop_is_seen_and_ends_clean(launch, taken):
    flags = ("--steps", "60", "--eval-every", "20", "--save-every", "20", "--gc-storm")
    assert launch("hf_style_loop", *flags).end() == 0
    assert "reason=clean" in wait_for(lambda: taken.lines("exit"))[0]
    assert largest(taken, "steps_total") == 60
    assert largest(taken, "micro_batches") == pytest.approx(2.0, rel=0.1)
    assert largest(taken, "gc_pause_seconds") > 0.005
    assert largest(taken, "checkpoint_seconds") > 0.0
    assert len(taken.lines("checkpoint_saved")) == 3
    assert wait_for(lambda: taken.lines("job_ended"))


@pytest.mark.parametrize("leak", ["losses", "hook", "cache", "cycle"])
@pytest.mark.long
def test_a_leak_grows(launch, leak):
    training = launch("hf_style_loop", "--steps", "2000", "--log-every", "1", "--leak", leak)
    training.reach(40)
    before = resident(training.process.pid)
    training.reach(140)
    assert resident(training.process.pid) > before + 20e6


def resident(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
