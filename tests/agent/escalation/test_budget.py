from __future__ import annotations

from gpudiag.agent.escalation.budget import Budget


def test_once_a_job_in_the_time(tmp_path):
    budget = Budget(tmp_path / "c.json", every=100.0)
    assert budget.take("a", 1000.0)
    assert not budget.take("a", 1099.0)
    assert budget.take("b", 1099.0)
    assert budget.take("a", 1100.0)


def test_a_restart_forgets_nothing(tmp_path):
    Budget(tmp_path / "c.json", every=100.0).take("a", 1000.0)
    assert not Budget(tmp_path / "c.json", every=100.0).take("a", 1050.0)


def test_what_cannot_be_read_allows_nothing(tmp_path):
    (tmp_path / "c.json").write_text("{")
    assert not Budget(tmp_path / "c.json", every=100.0).take("a", 1000.0)


def test_what_cannot_be_written_allows_nothing(tmp_path):
    assert not Budget(tmp_path / "gone" / "c.json", every=100.0).take("a", 1000.0)
