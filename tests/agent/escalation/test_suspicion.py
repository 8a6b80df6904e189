from __future__ import annotations

import msgspec
import pytest

from gpudiag.agent.escalation.suspicion import Suspect, suspects
from gpudiag.agent.rules.contract import subject
from tests.agent.actions.doubles import hung

GROWS = msgspec.structs.replace(
    hung(),
    symptom="memory-slow-growth",
    cause="undetermined",
    subject=subject(job="llama", rank="3"),
    state="pending",
)


def test_a_pending_growth_of_a_rank_is_enough():
    assert suspects([GROWS]) == [Suspect("llama", 3)]


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "resolved"},
        {"severity": "info"},
        {"symptom": "fragmentation"},
        {"cause": "data-loading-leak"},
        {"subject": subject(uuid="GPU-1")},
        {"subject": subject(job="llama")},
    ],
)
def test_nothing_else_is(changed):
    assert suspects([msgspec.structs.replace(GROWS, **changed)]) == []
