"""Any number of readers cost the agent one snapshot."""

from __future__ import annotations

from gpudiag.agent.exporters.view import Snapshots
from tests.agent.exporters.fake_view import FakeView


def test_readers_share_a_snapshot_until_the_generation_changes(view: FakeView) -> None:
    snapshots = Snapshots(view)
    first = snapshots.get()
    assert snapshots.get() is first
    view.version += 1
    assert snapshots.get() is not first
    assert view.asked == 2


def test_a_series_that_goes_stale_disappears_though_nothing_new_arrives(view: FakeView) -> None:
    snapshots = Snapshots(view)
    before = snapshots.get()
    view.time += 1.0
    view.readings = []
    assert snapshots.get() is not before
    assert snapshots.get().samples == ()


def test_a_clock_set_back_does_not_freeze_the_snapshot(view: FakeView) -> None:
    snapshots = Snapshots(view)
    before = snapshots.get()
    view.time -= 3600.0
    assert snapshots.get() is not before
