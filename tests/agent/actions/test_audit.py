from __future__ import annotations

import json

import pytest

from gpudiag.agent.actions.audit import Audit, Line
from tests.agent.actions.test_guard import plan

LINE = Line(time=1.0, decision="begun", actor="ann", why="it hangs", plan=plan())


def test_a_line_has_rule_decision_actor_and_reason(tmp_path):
    Audit(tmp_path / "a.jsonl").write(LINE)
    read = json.loads((tmp_path / "a.jsonl").read_text())
    assert (read["decision"], read["actor"], read["why"]) == ("begun", "ann", "it hangs")
    assert read["plan"]["symptom"] == "serving-stalled"
    assert (tmp_path / "a.jsonl").stat().st_mode & 0o777 == 0o600


def broken(line):
    raise ConnectionError("nobody listens")


def test_a_mirror_that_breaks_costs_nothing(tmp_path, caplog):
    seen: list[Line] = []
    audit = Audit(tmp_path / "a.jsonl", sinks=[broken, seen.append])
    audit.write(LINE)
    assert seen == [LINE]
    assert "not mirrored" in caplog.text


def test_a_full_file_moves_aside(tmp_path):
    audit = Audit(tmp_path / "a.jsonl", max_bytes=1000)
    for _ in range(5):
        audit.write(LINE)
    assert (tmp_path / "a.jsonl").stat().st_size <= 1000
    assert (tmp_path / "a.jsonl.1").exists()


def test_a_disk_that_refuses_is_an_error(tmp_path):
    with pytest.raises(OSError, match="Is a directory"):
        Audit(tmp_path).write(LINE)
