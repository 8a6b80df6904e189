from __future__ import annotations

import msgspec
import pytest

from gpudiag.agent.analysis.memory.asked import Asked, Holder
from gpudiag.agent.analysis.memory.compare import compare
from tests.agent.analysis.memory.seam import digested, judged, played
from tests.allocsim.job import Job
from tests.allocsim.recorder import Recorder
from tests.allocsim.stacks import MAIN, frame, user

KEPT = (user("train.py", 95, "train_step"), *MAIN)


def leaking(frames=KEPT, every: int = 10, count: int = 2, *, history: bool = False):
    """Snapshots of a job that keeps a block of 1 MiB per step, stacks on blocks alone."""
    job = Job()
    if not history:
        job.allocator.recorder = Recorder(job.allocator.recorder.clock, context="state")
    job.hooks["end"].append(lambda job: job.kept.append(job.alloc(2**20, frames)))
    job.start().steps(3)
    found = []
    for number in range(count):
        found.append(digested(job.steps(every).snapshot(), f"s{number}.pickle"))
    return found


def test_two_snapshots_without_history_suspect_a_line_of_many_new_blocks():
    part = judged(leaking(), Asked(every=10))
    (leak,) = [growth for growth in part.growth if growth.leaks]
    assert (leak.site.line, leak.rate, leak.by) == (95, 2**20, "count")
    assert (leak.new, leak.kept, leak.gone) == (10, 13, 0)
    assert part.verdict.confidence <= 0.6
    assert any("warm-up" in missing for missing in part.verdict.missing)


def test_two_snapshots_with_few_new_blocks_cannot_tell():
    said = judged(leaking(every=3)).verdict
    assert said.kind == "cannot tell"
    assert said.evidence[0].startswith("llm/train.py:95: +3.00 MiB")


def test_unknown_steps_are_counted_in_snapshots():
    part = judged([msgspec.structs.replace(file, step=None) for file in leaking()])
    assert part.points is not None
    assert part.points.unit == "snapshot"


def test_one_snapshot_without_history_cannot_tell_and_says_what_to_take():
    said = judged(leaking(count=1)).verdict
    assert said.kind == "cannot tell"
    assert any("second snapshot" in missing for missing in said.missing)


def test_churn_of_equal_number_is_no_growth():
    _, digests = played("variable_lengths")
    assert {g.change for g in judged(digests).growth if g.grown > 0} == set()


def test_the_census_names_the_holder():
    holder = Holder(name="history", kind="list", file="train.py", line=95, count=23, graph=True)
    said = judged(leaking(), Asked(every=10, census=(holder,))).verdict
    assert said.summary.startswith(
        "list `history` in train.py:95 holds 23 tensors with a graph: +1.00 MiB per step"
    )
    assert said.cause == "tensors-retained-across-steps"


def test_time_to_oom_has_a_band():
    case, digests = played("cache")
    part = judged(digests, Asked(free=10 * 2**20))
    assert part.outlook is not None
    free = sum(p.free for p in part.device.pools)
    assert part.outlook.after == pytest.approx((10 * 2**20 + free) / case.truth.per_step, rel=0.05)
    assert part.outlook.soonest <= part.outlook.after <= (part.outlook.latest or 0.0)


def test_growth_is_held_against_the_totals():
    case, digests = played("twentieth_mib")
    sums = judged(digests, Asked(used=tuple(case.used))).sums
    assert sums is not None
    assert sums.named == case.allocated[-1] - case.allocated[0]
    assert (sums.bare, sums.rest, sums.outside) == (0, 0, 0)


def test_two_runs_pair_by_id_though_lines_moved():
    moved = (frame("/other/llm/train.py", 101, "train_step"), *MAIN)
    before, after = leaking(count=1)[0], leaking(moved, count=1, every=20)[0]
    change = next(c for c in compare(before.devices[0], after.devices[0]) if c.site.line == 101)
    assert (change.moved, change.change) == (True, "grew")
    assert change.after - change.before == 10 * 2**20


@pytest.mark.parametrize("name", ["warm_up", "adam_first_step", "graph_capture"])
@pytest.mark.parametrize("count", range(2, 9))
def test_the_first_few_snapshots_of_a_warm_up_are_no_leak(name, count):
    _, digests = played(name)
    assert judged(digests[:count]).verdict.kind != "leak"


def test_few_cycles_of_one_recording_are_only_a_suspicion():
    case, digests = played("kept_graph")
    said = judged(digests[:1]).verdict
    assert case.steps[0] < 8
    assert said.kind == "cannot tell"
    assert said.evidence[0].startswith("llm/model.py:3")
