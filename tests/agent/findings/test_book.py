from dataclasses import replace

import pytest

from gpudiag.agent.findings.book import CARRIED_GRACE, FOLD_GRACE, Book
from gpudiag.agent.rules.contract import Diagnosis, Healthy, Rule, Unknown, subject

GPU = subject(uuid="GPU-1")
HOT = Diagnosis(GPU, "thermal-throttle", 0.9, "GPU 1 is too hot.", ())
XID = Diagnosis(GPU, "xid-79", 0.95, "GPU 1 fell off the bus.", ())
RULE = Rule(check=lambda window, limits: (), hold=10.0, clear=20.0)


@pytest.fixture
def book() -> Book:
    at_once = replace(RULE, hold=0.0)
    return Book({"thermal-throttle": RULE, "gpu-xid": at_once, "gpu-lost": at_once})


def feed(book, *steps):
    return [book.update(now, {"thermal-throttle": said}) for now, said in steps]


def state(book):
    return [f.state for f in book.findings()]


def test_fires_once_the_hold_has_passed(book):
    feed(book, (0, [HOT]), (5, [HOT]))
    assert state(book) == ["pending"]
    (fired,) = book.update(10, {"thermal-throttle": [HOT]})
    assert (fired.state, fired.since, fired.raised_at) == ("firing", 0, 10)


def test_is_told_once_while_it_goes_on(book):
    changes = feed(book, (0, [HOT]), (10, [HOT]), (15, [HOT]), (20, [HOT]))
    assert [len(c) for c in changes] == [0, 1, 0, 0]


def test_a_blip_shorter_than_the_hold_is_dropped(book):
    feed(book, (0, [HOT]), (5, [Healthy(GPU)]))
    assert book.findings() == []


def test_resolves_after_clear_seconds_of_health(book):
    feed(book, (0, [HOT]), (10, [HOT]), (15, [Healthy(GPU)]), (30, [Healthy(GPU)]))
    assert state(book) == ["firing"]
    (resolved,) = book.update(35, {"thermal-throttle": [Healthy(GPU)]})
    assert (resolved.state, resolved.reason, resolved.resolved_at) == ("resolved", "cleared", 35)


def test_a_relapse_starts_the_clear_time_anew(book):
    steps = (0, [HOT]), (10, [HOT]), (15, [Healthy(GPU)]), (30, [HOT]), (40, [Healthy(GPU)])
    feed(book, *steps, (55, [Healthy(GPU)]))
    assert state(book) == ["firing"]


@pytest.mark.parametrize("silence", [[], [Unknown(GPU, ("temperature",))]])
def test_silence_freezes_and_never_resolves(book, silence):
    feed(book, (0, [HOT]), (10, [HOT]))
    (frozen,) = book.update(15, {"thermal-throttle": silence})
    assert (frozen.state, frozen.stale_since) == ("firing", 15)
    feed(book, (1000, silence))
    assert state(book) == ["firing"]
    (thawed,) = book.update(1005, {"thermal-throttle": [HOT]})
    assert thawed.stale_since is None


def test_a_rule_that_did_not_run_freezes_nothing(book):
    feed(book, (0, [HOT]), (10, [HOT]))
    assert book.update(15, {}) == []


def test_a_cause_changes_only_after_three_agree(book):
    other = replace(HOT, cause="fan")
    feed(book, (0, [HOT]), (10, [HOT]), (15, [other]), (20, [HOT]), (25, [other]), (30, [other]))
    assert book.findings()[0].cause == "thermal-throttle"
    (changed,) = book.update(35, {"thermal-throttle": [other]})
    assert (changed.cause, changed.raised_at) == ("fan", 10)


def test_the_consequence_folds_under_its_cause_and_comes_back_without_it(book):
    lost = Diagnosis(GPU, "gpu-lost", 0.9, "GPU 1 is lost.", ())
    book.update(0, {"gpu-lost": [lost]})
    assert book.findings()[0].explained_by == ""
    changed = book.update(5, {"gpu-lost": [lost], "gpu-xid": [XID]})
    assert {f.symptom: f.explained_by for f in changed} == {
        "gpu-xid": "",
        "gpu-lost": "gpu-xid{uuid=GPU-1}",
    }
    for now in (10, 40):
        book.update(now, {"gpu-xid": [Healthy(GPU)], "gpu-lost": [lost]})
    assert book.findings()[0].explained_by == "gpu-xid{uuid=GPU-1}", "for a while longer"
    (alone,) = book.update(40 + FOLD_GRACE, {"gpu-lost": [lost]})
    assert (alone.symptom, alone.explained_by) == ("gpu-lost", "")


def test_another_gpus_fault_explains_nothing(book):
    other = replace(XID, subject=subject(uuid="GPU-2"))
    lost = Diagnosis(GPU, "gpu-lost", 0.9, "GPU 1 is lost.", ())
    book.update(0, {"gpu-lost": [lost], "gpu-xid": [other]})
    assert [f.explained_by for f in book.findings()] == ["", ""]


def test_what_fired_before_a_restart_is_known_and_not_raised_again(book):
    feed(book, (0, [HOT]), (10, [HOT]))
    again = Book({"thermal-throttle": RULE}, firing=book.findings())
    assert again.update(100, {"thermal-throttle": [HOT]}) == []
    assert again.findings()[0].raised_at == 10


def test_after_a_restart_it_takes_longer_to_clear_unless_it_was_seen_again(book):
    feed(book, (0, [HOT]), (10, [HOT]))
    again = Book({"thermal-throttle": RULE}, firing=book.findings())
    feed(again, (100, [Healthy(GPU)]), (100 + RULE.clear, [Healthy(GPU)]))
    assert state(again) == ["firing"]
    feed(again, (100 + RULE.clear + CARRIED_GRACE, [Healthy(GPU)]))
    assert state(again) == ["resolved"]
    seen = Book({"thermal-throttle": RULE}, firing=book.findings())
    feed(seen, (100, [HOT]), (105, [Healthy(GPU)]), (105 + RULE.clear, [Healthy(GPU)]))
    assert state(seen) == ["resolved"]


def test_what_cannot_be_told_is_listed_until_it_can(book):
    feed(book, (0, [Unknown(GPU, ("temperature",))]))
    assert [u.missing for u in book.unknown()["thermal-throttle"]] == [("temperature",)]
    feed(book, (5, [Healthy(GPU)]))
    assert book.unknown() == {}


def test_a_clock_jump_moves_the_timers_along(book):
    feed(book, (0, [HOT]))
    book.rebase(3600)
    assert book.update(3605, {"thermal-throttle": [HOT]}) == []
    assert state(book) == ["pending"]


def test_what_ends_is_resolved_with_its_reason_and_a_blip_is_dropped(book):
    other = replace(HOT, subject=subject(uuid="GPU-2"))
    feed(book, (0, [HOT]), (10, [HOT, other]))
    ended = book.end(12, lambda subject: True, "ended")
    assert [(f.state, f.reason, f.resolved_at) for f in ended] == [("resolved", "ended", 12)]
    assert book.findings() == ended


def test_what_does_not_match_goes_on(book):
    feed(book, (0, [HOT]), (10, [HOT]))
    assert book.end(12, lambda subject: False, "ended") == []
    assert state(book) == ["firing"]
