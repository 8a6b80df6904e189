from __future__ import annotations

from dataclasses import replace

import pytest

from gpudiag.agent.engine import window_for
from gpudiag.agent.rules import RULES
from gpudiag.agent.rules._growth import Growth
from gpudiag.agent.rules._memory_capture import refined
from gpudiag.agent.rules._memory_causes import Why
from gpudiag.agent.rules.contract import subject
from gpudiag.probes import Event

WHO = subject(job="llama", rank="1")


@pytest.fixture
def said():
    grown = Growth(rate=1.0, grown=1.0, level=1.0, seconds=1.0, since=0.0)
    return Why("undetermined", 0.5, "gpudiag_torch_allocated_bytes", grown, "it grows")


def after(*events):
    window = window_for(RULES)
    window.now = 1000.0
    window.add([], events)
    return window


def captured(at=900.0, rank="1", **fields):
    told = {"cause": "log-or-cache-buffers", "site": "eval.py:44", "per_step": "65536.0"}
    told |= {"confidence": "0.9", "job": "llama", "rank": rank, **fields}
    return Event(at, "agent", "list `seen` holds them", "memory_capture", told)


def test_without_a_capture_nothing_changes(said):
    assert refined(after(), WHO, said) is said
    assert refined(after(captured(rank="2")), WHO, said) is said


def test_the_line_and_its_rate_are_the_first_evidence(said):
    told = refined(after(captured()), WHO, said)
    (rate, *_) = told.evidence
    assert (rate.value, rate.labels) == (65536.0, {"site": "eval.py:44"})
    assert (told.cause, told.confidence, told.corroborated) == ("log-or-cache-buffers", 0.9, True)
    assert told.rivals == ()


def test_the_cause_that_the_trend_had_named_is_a_rival(said):
    said = replace(said, cause="caching-growth")
    assert [rival.cause for rival in refined(after(captured()), WHO, said).rivals] == [
        "caching-growth"
    ]


def test_the_newest_capture_counts(said):
    told = refined(after(captured(800.0), captured(900.0, site="train.py:57")), WHO, said)
    assert told.evidence[0].labels == {"site": "train.py:57"}


def test_an_unsure_capture_leaves_the_cause_open(said):
    told = refined(after(captured(confidence="0.6")), WHO, said)
    assert told.cause == "undetermined"
    assert told.evidence[0].value == 65536.0


def test_a_look_that_found_nothing_says_why(said):
    told = refined(after(captured(site="")), WHO, said)
    assert told.missing == ("list `seen` holds them",)
    assert told.evidence == ()
