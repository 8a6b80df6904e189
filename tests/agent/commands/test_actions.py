"""A person between finding and action: the real agent, a real command, the token."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from gpudiag.agent.commands.actions import command
from gpudiag.probes.errors import GpudiagError, UsageError
from tests.agent.commands.fallen import CONFIG, XID
from tests.running import RunningAgent, wait_for


@pytest.fixture
def start(tmp_path):
    started = []

    def run(mode):
        text = CONFIG.format(mode=mode, folder=tmp_path)
        started.append(RunningAgent(tmp_path, config=text).start())
        return started[0]

    yield run
    for agent in started:
        agent.stop()


@pytest.fixture
def cli(monkeypatch):
    def run(agent, *words, token="hush"):
        monkeypatch.setenv("GPUDIAG_TOKEN", token)
        url = f"http://127.0.0.1:{agent.port}"
        return CliRunner().invoke(command, [*words, "--agent", url], catch_exceptions=False)

    return run


def waiting(agent, cli):
    lines = cli(agent, "list", "--json").output.splitlines()
    return [a["plan"]["id"] for a in map(json.loads, lines) if a["state"] == "waiting"]


def test_a_plan_waits_for_a_person_and_is_then_carried_out(start, cli, tmp_path):
    agent = start("approve")
    agent.kernel(XID)
    (plan,) = wait_for(lambda: waiting(agent, cli), seconds=30)
    assert not (tmp_path / "done").exists()
    with pytest.raises(GpudiagError, match="show the token"):
        cli(agent, "approve", plan, token="wrong")
    assert cli(agent, "approve", plan).output == "done\n"
    wait_for((tmp_path / "done").exists, seconds=30)
    audit = (tmp_path / "state" / "audit.jsonl").read_text
    wait_for(lambda: audit().count("\n") >= 4)
    assert "hush" not in audit()
    assert [json.loads(line)["decision"] for line in audit().splitlines()][:4] == [
        *["waiting", "approved", "begun", "done"]
    ]
    with pytest.raises(UsageError, match="no plan"):
        cli(agent, "approve", plan)


def test_dry_run_writes_what_it_would_do(start, cli, tmp_path):
    agent = start("dry-run")
    agent.kernel(XID)
    audit = tmp_path / "state" / "audit.jsonl"
    wait_for(lambda: audit.exists() and "\n" in audit.read_text(), seconds=30)
    assert json.loads(audit.read_text().splitlines()[0])["plan"]["action"] == "command"
    assert not (tmp_path / "done").exists()
    with pytest.raises(UsageError, match="breaker is closed"):
        cli(agent, "reset-breaker")


def test_without_a_token_nothing_is_even_asked(monkeypatch):
    monkeypatch.delenv("GPUDIAG_TOKEN", raising=False)
    with pytest.raises(UsageError, match="--token-file or GPUDIAG_TOKEN"):
        CliRunner().invoke(command, ["deny", "x"], catch_exceptions=False)


def test_a_spoilt_ledger_stops_acting_and_nothing_else(tmp_path, cli):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "actions.db").write_bytes(b"no ledger" * 500)
    agent = RunningAgent(tmp_path, config=CONFIG.format(mode="auto", folder=tmp_path)).start()
    try:
        agent.kernel(XID)
        wait_for(lambda: agent.firing("gpu-xid"), seconds=30)
        assert wait_for(lambda: agent.metric("gpudiag_breaker_open") == [1.0], seconds=30)
        with pytest.raises(GpudiagError):
            cli(agent, "list")
        assert not (tmp_path / "done").exists()
    finally:
        agent.stop()
