"""A person on call and the real agent: acknowledged, judged, remembered."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from gpudiag.agent import units
from gpudiag.agent.commands.findings import command
from gpudiag.probes.errors import GpudiagError, UsageError
from tests.agent.commands.fallen import CONFIG, XID
from tests.running import RunningAgent, wait_for


@pytest.fixture
def agent(tmp_path):
    running = RunningAgent(tmp_path, config=CONFIG.format(mode="dry-run", folder=tmp_path)).start()
    running.kernel(XID)
    wait_for(lambda: running.firing("gpu-xid"), seconds=30)
    yield running
    running.stop()


@pytest.fixture
def cli(monkeypatch):
    def run(agent, *words, token="hush"):
        monkeypatch.setenv("GPUDIAG_TOKEN", token)
        url = f"http://127.0.0.1:{agent.port}"
        return CliRunner().invoke(command, [*words, "--agent", url], catch_exceptions=False)

    return run


def the_id(agent):
    (finding,) = agent.firing("gpu-xid")
    return finding["id"]


def gpudiag(*words):
    done = [sys.executable, "-m", "gpudiag.agent", *words]
    return subprocess.run(done, capture_output=True, text=True, timeout=240, check=False)


def test_the_list_gives_the_ids_and_who_is_on_it(agent, cli):
    name = the_id(agent)
    assert name in cli(agent).output.splitlines()
    cli(agent, "ack", name, "--for", "2h", "--reason", "node is draining")
    (finding,) = [f for f in map(json.loads, cli(agent, "--json").output.splitlines())
                  if f["id"] == name]  # fmt: skip
    said = finding["acknowledged"]
    assert said["reason"] == "node is draining"
    assert said["until"] - said["at"] == units.seconds("2h")


def test_what_is_acknowledged_still_shows_and_says_so_everywhere(agent, cli):
    name = the_id(agent)
    cli(agent, "ack", name, "--for", "2h", "--reason", "node is draining")
    wait_for(lambda: agent.firing("gpu-xid")[0]["acknowledged"])
    status = gpudiag("status", "--agent", f"127.0.0.1:{agent.port}")
    assert status.returncode == 1
    for shown in (status.stdout, agent.get("/")):
        assert "is on it until" in shown
        assert "node is draining" in shown
    (until,) = agent.metric("gpudiag_finding_acknowledged_until_timestamp_seconds")
    assert until == agent.firing("gpu-xid")[0]["acknowledged"]["until"]
    assert len(agent.metric("gpudiag_finding_active", symptom="gpu-xid")) == 1
    cli(agent, "withdraw", name)
    wait_for(lambda: not agent.metric("gpudiag_finding_acknowledged_until_timestamp_seconds"))


def test_it_survives_a_kill(agent, cli):
    name = the_id(agent)
    cli(agent, "ack", name, "--for", "2h", "--reason", "mine")
    agent.stop(9)
    agent.start()
    assert wait_for(lambda: agent.firing("gpu-xid"))[0]["acknowledged"]["reason"] == "mine"


def test_it_ends_by_itself(agent, cli):
    cli(agent, "ack", the_id(agent), "--for", "10s", "--reason", "a moment")
    assert agent.firing("gpu-xid")[0]["acknowledged"]
    wait_for(lambda: agent.firing("gpu-xid")[0]["acknowledged"] is None, seconds=30)


def decisions(tmp_path):
    audit = tmp_path / "state" / "audit.jsonl"
    whole = audit.read_text().rpartition("\n")[0] if audit.exists() else ""
    return [json.loads(line) for line in whole.splitlines()]


def test_nothing_is_done_while_a_person_is_on_it(tmp_path, cli):
    agent = RunningAgent(tmp_path, config=CONFIG.format(mode="auto", folder=tmp_path))
    (tmp_path / "hold").touch()
    agent.start()
    try:
        agent.kernel(XID)
        name = wait_for(lambda: agent.firing("gpu-xid"), seconds=30)[0]["id"]
        cli(agent, "ack", name, "--for", "1h", "--reason", "mine")
        (tmp_path / "hold").unlink()
        line = wait_for(
            lambda: [d for d in decisions(tmp_path) if "is on it until" in d["why"]], seconds=30
        )[0]
        assert (line["decision"], line["plan"]["finding"]) == ("refused", name)
        assert not (tmp_path / "done").exists()
        cli(agent, "withdraw", name)
        wait_for((tmp_path / "done").exists, seconds=30)
    finally:
        agent.stop()


@pytest.mark.parametrize(
    ("words", "expects"),
    [
        (["right"], 'cause: ["xid-79"]'),
        (["wrong", "xid-48"], 'cause: ["xid-48"]'),
        (["wrong"], 'quiet: ["gpu-xid"]'),
    ],
)
def test_a_verdict_becomes_a_draft_that_replay_judges(agent, cli, tmp_path, words, expects):
    draft = tmp_path / "draft.yaml"
    told = cli(agent, "verdict", the_id(agent), *words, "--out", str(draft)).output
    assert f"gpudiag replay {draft} --check" in told
    assert expects in draft.read_text()
    (kept,) = (tmp_path / "state" / "drafts").iterdir()
    assert kept.read_text() == draft.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600
    replayed = gpudiag("replay", str(draft), "--json", "--check")
    seen = [json.loads(line) for line in replayed.stdout.splitlines()]
    assert ("gpu-xid", "xid-79") in {(f["symptom"], f.get("cause")) for f in seen}
    # The rules still say what they said: only a draft that says they were right holds.
    assert replayed.returncode == int(words != ["right"])
    review = wait_for(lambda: agent.firing("gpu-xid")[0]["review"])
    assert review["right"] is (words == ["right"])


def test_a_verdict_survives_a_kill_and_is_shown(agent, cli):
    cli(agent, "verdict", the_id(agent), "wrong", "xid-48")
    agent.stop(9)
    agent.start()
    wait_for(lambda: agent.firing("gpu-xid"))
    assert "says it was wrong, it was xid-48" in cli(agent).output
    assert "says it was wrong" in gpudiag("status", "--agent", f"127.0.0.1:{agent.port}").stdout


def test_what_cannot_be_kept_is_refused_with_what_to_do(agent, cli, tmp_path):
    name = the_id(agent)
    with pytest.raises(GpudiagError, match="no documented cause of gpu-xid"):
        cli(agent, "verdict", name, "wrong", "fragmentation")
    with pytest.raises(GpudiagError, match="then the verdict is wrong xid-48"):
        cli(agent, "verdict", name, "right", "xid-48")
    with pytest.raises(UsageError, match="lists the ids"):
        cli(agent, "ack", "gpu-xid{uuid=none}", "--for", "1h", "--reason", "r")
    with pytest.raises(UsageError, match="nobody is on it"):
        cli(agent, "withdraw", name)
    with pytest.raises(GpudiagError, match="seconds"):
        cli(agent, "ack", name, "--for", "90d", "--reason", "r")
    with pytest.raises(GpudiagError, match="show the token"):
        cli(agent, "ack", name, "--for", "1h", "--reason", "r", token="wrong")
    assert not (tmp_path / "state" / "drafts").exists()
    assert os.stat(tmp_path / "state" / "remarks.db").st_mode & 0o777 == 0o600
