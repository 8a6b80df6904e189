"""The look at a process with a CUDA allocator, played: the report is the real one."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from gpudiag.agent.channel.commands import Result
from gpudiag.agent.escalation import escalator
from gpudiag.agent.escalation.budget import Budget
from gpudiag.agent.escalation.capture import Capture, Snapshots
from gpudiag.agent.escalation.shelf import Shelf
from gpudiag.agent.escalation.suspicion import Suspect
from gpudiag.probes import Event
from gpudiag.probes.errors import GpudiagError
from tests.agent.analysis.memory.seam import played
from tests.allocsim.snapshot import dump

WHO = Suspect("llama", 0)
CENSUS = {"groups": [{"count": 1, "bytes": 4, "holders": []}]}


class Ranks:
    """A rank that writes what the allocator simulator made, and announces it."""

    who = WHO

    def __init__(self, folder, snapshots, cuda=True):
        self.folder, self.snapshots, self.cuda, self.said = folder, snapshots, cuda, []
        self.case, _ = played("growing_cat")

    def owner(self, job, rank):
        return os.getuid()

    def command(self, job, name, args, *, timeout, rank):
        self.said.append(name)
        if name == "record_steps" and self.cuda:
            number = self.said.count(name) - 1
            path = dump(self.case.snapshots[number], self.folder / f"steps-{number}.pickle")
            self.snapshots.announced(self.who, path)
        answers: dict[str, dict[str, Any]] = {"ping": {"step": 10}, "census": CENSUS}
        fields = answers.get(name, {})
        return [Result(rank, name != "record_steps" or self.cuda, "", fields)]


class Gone(Ranks):
    """It wrote its snapshot, and ended."""

    def owner(self, job, rank):
        return None


@pytest.fixture
def snapshots():
    return Snapshots()


def capture(tmp_path, ranks, snapshots):
    return Capture(ranks, snapshots, Shelf(tmp_path / "kept", 2**30), gap=9.0, wait=lambda _: None)


def test_three_recordings_give_the_line(tmp_path, snapshots):
    ranks = Ranks(tmp_path, snapshots)
    found = capture(tmp_path, ranks, snapshots).look(WHO)
    assert (found.site, found.cause) == ("eval.py:44", "log-or-cache-buffers")
    assert ranks.said == ["record_steps", "ping", "census"] * 3
    assert len(list((tmp_path / "kept").glob("*.pickle"))) == 3


def test_a_process_without_an_allocator_is_counted_only(tmp_path, snapshots):
    found = capture(tmp_path, Ranks(tmp_path, snapshots, cuda=False), snapshots).look(WHO)
    assert found.site == ""
    assert "no group of live tensors grew" in found.summary


def test_a_rank_that_never_writes_is_given_up():
    with pytest.raises(GpudiagError, match="no snapshot came"):
        Snapshots().next(WHO, 0.01)


def test_a_finding_leads_to_one_event_and_its_figures(tmp_path, snapshots):
    told, done = [], threading.Event()

    def put(samples, events):
        told.extend(events)
        done.set()

    look = capture(tmp_path, Ranks(tmp_path, snapshots), snapshots)
    made = escalator.Escalator(look, snapshots, Budget(tmp_path / "b", 60.0), put, lambda: 5.0)
    made.queue(WHO)
    assert done.wait(60)
    (event,) = told
    assert (event.type, event.fields["site"]) == ("memory_capture", "eval.py:44")
    figures = {s.metric: s.value for s in made.samples(6.0)}
    assert figures["gpudiag_memory_captures_total"] == 1.0
    assert figures["gpudiag_leak_site_bytes_per_step"] == 64 * 1024
    assert "gpudiag_leak_site_bytes" not in {s.metric for s in made.samples(9000.0)}


def test_a_rank_announces_its_snapshots_as_events(tmp_path, snapshots):
    made = escalator.Escalator(
        capture(tmp_path, Ranks(tmp_path, snapshots), snapshots),
        *(snapshots, Budget(tmp_path / "b", 60.0), lambda *_: None, lambda: 5.0),
    )
    fields = {"job": "llama", "rank": "0"}
    made.observe([], [Event(1.0, "torch", "/x/steps.pickle", "snapshot", fields)])
    assert str(snapshots.next(WHO, 0.0)) == "/x/steps.pickle"


def test_what_was_announced_before_is_not_what_is_waited_for(tmp_path, snapshots):
    snapshots.announced(WHO, tmp_path / "of-another-time.pickle")
    found = capture(tmp_path, Ranks(tmp_path, snapshots), snapshots).look(WHO)
    assert found.site == "eval.py:44"


def test_a_rank_that_answers_nonsense_is_told(tmp_path, snapshots, monkeypatch):
    monkeypatch.setitem(CENSUS, "groups", [{"count": "many"}])
    told, done = [], threading.Event()

    def put(samples, events):
        told.extend(events)
        done.set()

    look = capture(tmp_path, Ranks(tmp_path, snapshots, cuda=False), snapshots)
    made = escalator.Escalator(look, snapshots, Budget(tmp_path / "b", 60.0), put, lambda: 5.0)
    made.queue(WHO)
    assert done.wait(30)
    assert told[0].line.startswith("nothing was captured")


def test_a_rank_that_is_gone_leaves_its_file_alone(tmp_path, snapshots):
    ranks = Gone(tmp_path, snapshots)
    with pytest.raises(GpudiagError, match="the rank has ended"):
        capture(tmp_path, ranks, snapshots).look(WHO)
    assert (tmp_path / "steps-0.pickle").exists()
