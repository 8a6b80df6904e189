from __future__ import annotations

import subprocess
import sys

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
