from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from gpudiag.agent.actions.contract import Ending
from gpudiag.agent.actions.levers.signals import RestartWorkers
from tests.agent.actions.test_guard import plan

OBEDIENT = "import time; print('up', flush=True); time.sleep(600)"
DEAF = f"import signal; signal.signal(15, signal.SIG_IGN); {OBEDIENT}"


@pytest.fixture
def workers():
    started = []

    def start(code):
        worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert worker.stdout is not None
        worker.stdout.readline()
        started.append(worker)
        return worker

    yield start
    for worker in started:
        worker.kill()
        worker.wait()
        worker.communicate()


def test_sigterm_first_and_sigkill_for_those_that_stay(workers):
    both = [workers(OBEDIENT), workers(DEAF)]
    told: dict[int, int] = {}
    lever = RestartWorkers(lambda _: [w.pid for w in both], told.__setitem__, grace=3.0)
    result = lever.do(plan(job="llama"))
    assert (result.ending, result.detail) == (
        *[Ending.DONE, "2 workers ended, 1 of them by SIGKILL"],
    )
    assert [w.wait() for w in both] == [-15, -9]
    assert [-told[worker.pid] for worker in both] == [-15, -9]


def told(**args):
    return msgspec.structs.replace(plan(job="llama"), args=args)


@pytest.mark.parametrize("name", ["SIGUSR1", "SIGINT"])
def test_a_job_may_be_told_by_the_signal_that_its_framework_saves_on(workers, name):
    saves = f"import signal; signal.signal(signal.{name}, lambda *_: exit(75)); {OBEDIENT}"
    worker = workers(saves)
    lever = RestartWorkers(lambda _: [worker.pid], grace=60.0)
    result = lever.do(told(signal=name, grace=50))
    assert (result.ending, result.detail) == (Ending.DONE, "1 workers ended")
    assert worker.wait() == 75


def test_the_grace_of_the_step_counts(workers):
    worker = workers(DEAF)
    result = RestartWorkers(lambda _: [worker.pid], grace=500.0).do(told(grace=0.5))
    assert result.detail == "1 workers ended, 1 of them by SIGKILL"


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"signal": "SIGKILL"}, "there are SIGTERM, SIGUSR1"),
        ({"signal": 9}, "no signal to begin with"),
        ({"grace": 0}, "above 0"),
        ({"grace": "30s"}, "it takes seconds"),
        ({"grace": 1e9}, "600 at most"),
        ({"sgnal": "SIGUSR1"}, "no argument ['sgnal']"),
    ],
)
def test_arguments_that_make_no_sense_end_nobody(workers, args, why):
    worker = workers(OBEDIENT)
    lever = RestartWorkers(lambda _: [worker.pid], grace=1.0)
    assert why in lever.unready(told(**args))
    result = lever.do(told(**args))
    assert result.ending is Ending.REFUSED
    assert worker.poll() is None


def test_ranks_that_are_gone_are_nobody():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert RestartWorkers(lambda _: [gone.pid]).do(plan(job="llama")).ending is Ending.REFUSED


def test_a_job_without_ranks_here_is_refused_before():
    assert "no rank of 'llama'" in RestartWorkers(lambda _: []).unready(plan(job="llama"))


def test_an_end_cannot_be_taken_back():
    lever = RestartWorkers(lambda _: [])
    assert not lever.reversible
    assert lever.undo(plan()).ending is Ending.REFUSED
