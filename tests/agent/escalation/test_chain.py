"""From the trend in a recording to the finding that names the line, and from none to nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.agent.escalation.budget import Budget
from gpudiag.agent.escalation.capture import Capture, Snapshots
from gpudiag.agent.escalation.escalator import Escalator
from gpudiag.agent.escalation.shelf import Shelf
from gpudiag.agent.escalation.suspicion import Suspect, suspects
from gpudiag.agent.replay import fresh_engine, load
from tests.agent.escalation.test_capture import Ranks
from tests.running import wait_for

INCIDENTS = Path(__file__).parents[2] / "incidents" / "memory-slow-growth"


class Rank1(Ranks):
    """The rank of the recording whose memory grows."""

    who = Suspect("llama", 1)


def test_a_trend_is_looked_at_once_and_the_finding_names_the_line(tmp_path):
    snapshots, told = Snapshots(), []
    ranks = Rank1(tmp_path, snapshots)
    look = Capture(ranks, snapshots, Shelf(tmp_path / "kept", 2**30), 60.0, lambda _: None)
    clock = [0.0]
    made = Escalator(
        *(look, snapshots, Budget(tmp_path / "b.json", 21600.0)),
        *(lambda _, events: told.extend(events), lambda: clock[0]),
    )
    engine, timeline = fresh_engine(), load(INCIDENTS / "retained-tensors.yaml")
    asked = False
    for now, samples, events, _ in timeline.batches(10.0):
        clock[0] = now
        engine.ingest(samples, [*events, *told])
        told.clear()
        changed = engine.evaluate(now)
        made.on_findings(now, changed, engine.window)
        if suspects(changed) and not asked:
            asked = bool(wait_for(lambda: told, seconds=60))
    (finding,) = [f for f in engine.book.findings() if f.symptom == "memory-slow-growth"]
    assert dict(finding.subject)["rank"] == "1"
    assert "llm/eval.py:44 collect keeps what it allocates" in finding.summary
    assert finding.cause == "log-or-cache-buffers"
    assert ranks.said.count("record_steps") == 3


@pytest.mark.parametrize(
    "quiet",
    [
        *("warm-up-and-workspaces", "epoch-sawtooth", "variable-length-noise"),
        *("epochs-of-uneven-length", "cache-that-stopped", "workers-that-warm-up"),
    ],
)
def test_what_is_no_leak_is_never_looked_at(quiet):
    engine, timeline = fresh_engine(), load(INCIDENTS / f"{quiet}.yaml")
    for now, samples, events, _ in timeline.batches(timeline.interval):
        engine.ingest(samples, events)
        assert suspects(engine.evaluate(now)) == []
