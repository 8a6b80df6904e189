"""What a recording must give and must not give: `expect` and `quiet`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpudiag.agent.recording.yaml_items import Item
from gpudiag.agent.rules.contract import SUBJECT_KEYS
from gpudiag.probes.catalog import symptoms

ExpectedState = Literal["firing", "resolved", "unknown"]

EVERY_SYMPTOM = "*"


@dataclass(frozen=True, slots=True)
class Expect:
    """One finding that must appear: any of `causes` (none named = any), at a subject that has
    all pairs of `subject`, raised at most `by` seconds after the start (None = at any time),
    whatever its `state`.
    """

    symptom: str
    causes: tuple[str, ...] = ()
    subject: Mapping[str, str] = field(default_factory=dict)
    by: float | None = None
    state: ExpectedState = "firing"


@dataclass(frozen=True, slots=True)
class Expectations:
    """All that must appear, and the symptoms that must not (`*` = none at all)."""

    expect: tuple[Expect, ...] = ()
    quiet: frozenset[str] = frozenset()


NOTHING = Expectations()


def read(keys: Mapping[str, Item]) -> Expectations:
    """From the keys `expect` and `quiet` of an incident file or a recording's `meta.json`."""
    expect = tuple(map(_expect, keys["expect"].items())) if "expect" in keys else ()
    quiet = frozenset(map(_quiet, keys["quiet"].one_or_many())) if "quiet" in keys else frozenset()
    return Expectations(expect, quiet)


def _expect(item: Item) -> Expect:
    keys = item.mapping(("symptom",), ("cause", "subject", "by", "state"))
    return Expect(
        symptom=_symptom(keys["symptom"]),
        causes=tuple(c.text() for c in keys["cause"].one_or_many()) if "cause" in keys else (),
        subject=_subject(keys["subject"]) if "subject" in keys else {},
        by=keys["by"].seconds() if "by" in keys else None,
        state=_state(keys["state"]) if "state" in keys else "firing",
    )


def _symptom(item: Item) -> str:
    symptom = item.text()
    if symptom not in symptoms():
        raise item.error(f"no such symptom: {symptom}; `gpudiag runbook` lists them")
    return symptom


def _quiet(item: Item) -> str:
    return EVERY_SYMPTOM if item.text() == EVERY_SYMPTOM else _symptom(item)


def _subject(item: Item) -> dict[str, str]:
    return {key: value.text() for key, value in item.mapping((), SUBJECT_KEYS).items()}


def _state(item: Item) -> ExpectedState:
    for state in ("firing", "resolved", "unknown"):
        if item.text() == state:
            return state
    raise item.error("must be firing, resolved or unknown")
