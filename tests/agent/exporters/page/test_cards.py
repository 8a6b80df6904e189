"""Which series a piece of evidence is drawn from."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from gpudiag.agent.exporters.page.cards import Card, Dealer
from gpudiag.agent.exporters.view import Floats, Snapshots
from gpudiag.agent.rules.contract import Evidence, Suggestion
from gpudiag.probes import Labels
from tests.agent.exporters.fake_view import FakeView


def card(view: FakeView, evidence: Evidence) -> Card:
    hot = msgspec.structs.replace(view.found[1], evidence=(evidence,))
    view.found = [hot]
    return Dealer(Snapshots(view).get(), view, {}).findings().firing[0]


def test_the_subject_picks_the_series_where_the_evidence_has_no_labels(view: FakeView) -> None:
    (fact,) = card(view, Evidence("gpudiag_gpu_power_watts", 402.5, "watts", "> 600")).facts
    assert fact.charted == "last 15 min, steady at 402.5 W"
    assert 'class="band"' in fact.chart


def test_a_flag_judged_by_its_share_of_time_is_drawn_in_that_unit(view: FakeView) -> None:
    share = Evidence("gpudiag_gpu_row_remap_failed", 1.0, "ratio", "below 0.3")
    (fact,) = card(view, share).facts
    assert (fact.value, fact.expected) == ("100 %", "below 30 %")
    assert fact.charted == "last 15 min, steady at 0 %"


def test_an_ambiguous_series_is_not_drawn(view: FakeView) -> None:
    (fact,) = card(view, Evidence("gpudiag_gpu_nvlink_up", 1.0)).facts
    assert not fact.chart


def test_what_has_no_history_is_said_and_not_drawn(view: FakeView) -> None:
    (fact,) = card(view, Evidence("kmsg", "NVRM: Xid 79")).facts
    assert (fact.value, str(fact.chart)) == ("NVRM: Xid 79", "")


def test_a_counter_is_drawn_as_its_rate(view: FakeView, monkeypatch: pytest.MonkeyPatch) -> None:
    def rising(metric: str, seconds: float, labels: Labels) -> tuple[Floats, Floats]:
        return np.arange(10.0), 250.0 * np.arange(10.0)

    monkeypatch.setattr(view, "history", rising)
    (fact,) = card(view, Evidence("gpudiag_gpu_energy_joules_total", 1.0, "joules")).facts
    assert fact.charted == "last 9 s, per second, steady at 250 J"


def test_a_counter_of_events_is_drawn_as_what_was_counted(
    view: FakeView, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(metric: str, seconds: float, labels: Labels) -> tuple[Floats, Floats]:
        return np.arange(61.0), np.where(np.arange(61.0) < 30, 7.0, 8.0)

    monkeypatch.setattr(view, "history", once)
    (fact,) = card(view, Evidence("gpudiag_gpu_xid_errors_total", 1.0)).facts
    assert fact.charted == "last 1 min, counted since then, 0 to 1"


def test_a_resolved_one_says_how_long_it_lasted(view: FakeView) -> None:
    (over,) = Dealer(Snapshots(view).get(), view, {}).findings().resolved
    assert (over.lasting, over.ended) == ("4 min", "1 min")


def test_what_only_a_folded_finding_asks_for_is_on_the_list(view: FakeView) -> None:
    hot, folded = view.found[1:3]
    own = (*hot.actions, Suggestion("restart", "Restart from the last checkpoint."))
    view.found = [hot, msgspec.structs.replace(folded, actions=own)]
    (shown,) = Dealer(Snapshots(view).get(), view, {}).findings().firing
    assert [(step.rung, step.whose) for step in shown.steps] == [
        ("drain", ""),
        ("restart", "straggler"),
    ]
