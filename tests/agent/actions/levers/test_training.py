from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from gpudiag.agent.actions.contract import RUNGS, Ending
from gpudiag.agent.actions.levers.training import TrainingLever
from gpudiag.agent.rules.contract import subject
from gpudiag.probes.errors import GpudiagError
from tests.agent.actions.test_guard import plan


@dataclass
class Answer:
    rank: int
    ok: bool = True
    detail: str = ""


class Ranks:
    def __init__(self, answers):
        self.answers, self.sent = answers, []

    def command(self, job, name, args, *, timeout):
        self.sent.append((job, name, dict(args)))
        if isinstance(self.answers, Exception):
            raise self.answers
        return self.answers


def told(action, **args):
    who = subject(job="llama")
    return msgspec.structs.replace(
        plan(), action=action, rung=RUNGS[action], subject=who, target="job=llama", args=args
    )


def test_all_ranks_took_it():
    ranks = Ranks([Answer(0), Answer(1)])
    assert TrainingLever("gc", ranks).do(told("gc")).ending is Ending.DONE
    assert ranks.sent == [("llama", "gc", {})]


def test_one_that_did_not_makes_it_a_failure():
    ranks = Ranks([Answer(0), Answer(1, ok=False, detail="no answer in time")])
    result = TrainingLever("checkpoint", ranks).do(told("checkpoint"))
    assert (result.ending, result.detail) == (Ending.FAILED, "rank 1: no answer in time")


def test_what_was_never_sent_costs_nothing():
    lever = TrainingLever("gc", Ranks(GpudiagError("no rank of the job is connected")))
    assert lever.do(told("gc")).ending is Ending.REFUSED
    assert lever.unready(told("gc")) == "no rank of the job is connected"


def test_a_silent_rank_keeps_the_lever_where_it_is():
    lever = TrainingLever("gc", Ranks([Answer(0), Answer(3, ok=False)]))
    assert lever.unready(told("gc")) == "ranks [3] of llama do not answer"


@pytest.mark.parametrize(
    ("action", "args", "back"),
    [
        ("micro_batch", {"factor": 4}, {"factor": 0.25}),
        ("set_memory_fraction", {"fraction": 0.8}, {"fraction": 1.0}),
    ],
)
def test_what_is_reversible_is_taken_back(action, args, back):
    ranks = Ranks([Answer(0)])
    lever = TrainingLever(action, ranks)
    assert lever.reversible
    lever.undo(told(action, **args))
    assert ranks.sent[-1][2] == back


def test_a_collection_is_not_reversible():
    assert not TrainingLever("gc", Ranks([])).reversible
