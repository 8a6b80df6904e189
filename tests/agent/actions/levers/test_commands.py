from __future__ import annotations

import pytest

from gpudiag.agent.actions.contract import Ending
from gpudiag.agent.actions.levers.commands import Command, Listed, units
from tests.agent.actions.test_guard import plan


def lever(*argv, undo=(), timeout=60.0):
    return Command("command", {"server=chat": Listed(argv, undo, timeout)})


def test_only_what_is_listed_for_the_target():
    assert lever("true").unready(plan()) == ""
    assert "see actions.commands" in lever("true").unready(plan(server="other"))


@pytest.mark.parametrize(
    ("argv", "ending"),
    [
        (("true",), Ending.DONE),
        (("false",), Ending.FAILED),
        (("sleep", "999"), Ending.FAILED),
        (("/no/such/program",), Ending.REFUSED),
    ],
)
def test_how_it_ends(argv, ending):
    timeout = 0.3 if argv[0] == "sleep" else 60.0
    assert lever(*argv, timeout=timeout).do(plan()).ending is ending


def test_no_shell_reads_the_words(tmp_path):
    lever("touch", f"{tmp_path}/a; touch {tmp_path}/b").do(plan())
    assert not (tmp_path / "b").exists()


def test_secrets_of_the_agent_are_not_handed_on(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUDIAG_TOKEN", "hush")
    lever("sh", "-c", f"env > {tmp_path}/seen").do(plan())
    assert "hush" not in (tmp_path / "seen").read_text()


def test_it_is_taken_back_by_what_is_listed(tmp_path):
    assert lever("true", undo=("touch", f"{tmp_path}/back")).undo(plan()).ending is Ending.DONE
    assert (tmp_path / "back").exists()


def test_a_unit_is_restarted_by_systemctl():
    told = []

    def run(argv, _):
        told.append(argv)
        return 0

    made = Command("restart_unit", units({"server=chat": "vllm.service"}), run)
    assert made.do(plan()).ending is Ending.DONE
    assert told == [("systemctl", "--no-ask-password", "restart", "vllm.service")]
