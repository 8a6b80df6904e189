from __future__ import annotations

import calendar
import threading
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from gpudiag.agent.acting.live_world import LiveWorld
from gpudiag.agent.config.acting import Maintenance
from gpudiag.agent.engine import window_for
from gpudiag.agent.findings.remark_store import Remarks
from gpudiag.agent.findings.remarks import Acknowledgement
from gpudiag.agent.rules import RULES
from gpudiag.probes import Sample, labels
from tests.agent.actions.doubles import hung
from tests.agent.actions.test_guard import plan


class Writer:
    def __init__(self, window=None):
        self.engine = SimpleNamespace(window=window)
        self.lock = threading.Lock()
        self.findings, self.evaluated_at, self.quick = [hung()], 95.0, True

    def refresh(self, seconds):
        return self.quick


def world(tmp_path, writer: Any = None, windows=(), now=100.0):
    rules: Any = writer or Writer()
    return LiveWorld(rules, lambda: now, tmp_path / "hold", windows)


def test_the_age_of_the_findings(tmp_path):
    assert world(tmp_path).input_age() == 5.0


def test_a_recheck_finds_it_or_not(tmp_path):
    assert world(tmp_path).recheck(hung().id) == hung()
    assert world(tmp_path).recheck("gpu-lost") is None


def test_rules_that_do_not_answer_confirm_nothing(tmp_path):
    writer = Writer()
    writer.quick = False
    assert world(tmp_path, writer).recheck(hung().id) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('app="chat"\ngpudiag/actions="off"\n', "has the label gpudiag/actions=off"),
        ('gpudiag/actions="on"\nnot-gpudiag/actions="off"\n', ""),
        ("", ""),
        (None, "is not known"),
    ],
)
def test_the_pods_own_label_holds_everything(tmp_path, text, why):
    """The form in which the downward API writes labels: a key, and its value in quotes, a line."""
    path = tmp_path / "labels"
    if text is not None:
        path.write_text(text)
    rules: Any = Writer()
    made = LiveWorld(rules, lambda: 100.0, tmp_path / "hold", (), pod_labels=path)
    said = made.opted_out(plan())
    assert why in said
    assert bool(said) == bool(why)


@pytest.mark.parametrize("name", ["hold", "hold.server=chat"])
def test_a_file_holds_everything_or_one_target(tmp_path, name):
    assert world(tmp_path).opted_out(plan()) == ""
    (tmp_path / name).touch()
    assert "a person wants it left alone" in world(tmp_path).opted_out(plan())
    assert bool(world(tmp_path).opted_out(plan(server="b"))) == (name == "hold")


@pytest.mark.parametrize(
    ("last", "loaded"), [([5.0, 5.0, 9.0], True), ([5.0, 5.0, 5.0], False), ([], None)]
)
def test_load_is_work_that_was_done(tmp_path, last, loaded):
    window = window_for(RULES)
    name = "gpudiag_serving_generation_tokens_total"
    window.now = 100.0
    window.add(
        [Sample(name, labels(server="chat"), 90.0 + 5 * i, value) for i, value in enumerate(last)]
    )
    assert world(tmp_path, Writer(window)).loaded(plan(), since=85.0) is loaded


# 2026-12-05 is a Saturday.
@pytest.mark.parametrize(
    ("clock", "inside"),
    [
        ((2026, 12, 5, 1, 59), False),
        ((2026, 12, 5, 2, 0), True),
        ((2026, 12, 5, 3, 59), True),
        ((2026, 12, 5, 4, 0), False),
        ((2026, 12, 6, 3, 0), False),
    ],
)
def test_maintenance(tmp_path, clock, inside):
    windows = (Maintenance(days=("sat",), start="02:00", end="04:00"),)
    now = float(calendar.timegm((*clock, 0)))
    assert bool(world(tmp_path, windows=windows).maintenance(now)) is inside


@pytest.mark.parametrize(("day", "hour", "inside"), [(5, 23, True), (6, 1, True), (6, 23, False)])
def test_maintenance_over_midnight(tmp_path, day, hour, inside):
    windows = (Maintenance(days=("sat",), start="22:00", end="02:00"),)
    now = float(calendar.timegm((2026, 12, day, hour, 30, 0)))
    assert bool(world(tmp_path, windows=windows).maintenance(now)) is inside


def test_a_person_on_a_finding_holds_it_until_then_and_no_other(tmp_path):
    remarks = Remarks(tmp_path / "remarks.db")
    said = Acknowledgement(by="ann", at=50.0, until=150.0, reason="r")
    remarks.acknowledge(plan().finding, said)

    def held(now, which):
        of: Any = Writer()
        return LiveWorld(of, lambda: now, tmp_path / "hold", (), remarks).opted_out(which)

    assert held(149.0, plan()).startswith("ann is on it until 1970-01-01 00:02 UTC")
    assert held(150.0, plan()) == ""
    assert held(149.0, msgspec.structs.replace(plan(), finding="another")) == ""


def test_what_cannot_be_read_holds_everything(tmp_path):
    (tmp_path / "remarks.db").write_bytes(b"spoilt" * 1000)
    of: Any = Writer()
    remarks = Remarks(tmp_path / "remarks.db")
    world = LiveWorld(of, lambda: 100.0, tmp_path / "hold", (), remarks)
    assert "cannot be read" in world.opted_out(plan())
