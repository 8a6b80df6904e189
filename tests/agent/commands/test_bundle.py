"""A bundle of the real agent's finding, with secrets planted wherever one may come in."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tarfile

import pytest
from click.testing import CliRunner

from gpudiag.agent.commands.findings import command as findings
from tests.running import RunningAgent, wait_for

PLANTED = {
    "token": "tok-planted-1",
    "hook": "T0PLANTED2/B0PLANTED3",
    "header": "planted4header",
    "argument": "planted5argument",
    "admin": "planted6admin",
    "prompt": "planted7prompt",
    "environment": "planted8environment",
    "log": "planted9log",
    "option": "planted10option",
    "reason": "planted11reason",
    "file": "planted12file",
    "user": "planted13user",
    "kernel": "hf_planted14kernel",
    "comment": "planted15comment",
}
CONFIG = """
# The old one was {comment}.
node: {{name: n1}}
probes:
  logs: {{files: ["{folder}/train.log"]}}
  canary: {{enabled: false, servers: [{{name: chat, url: "http://127.0.0.1:9", api: openai-chat,
            api_key: "@{folder}/key", prompt: {prompt}}}]}}
actions:
  mode: dry-run
  token: {token}
  ladders:
    touch: [{{action: command, promise: 10s, hold: 1, args: {{reason: {argument}}}}}]
  policy: {{gpu-xid/xid-79: touch}}
  servers: {{chat: {{url: "http://127.0.0.1:9", engine: vllm, key: {admin}}}}}
  commands:
    node=n1: {{argv: [touch, "/nowhere/{argument}"]}}
  webhooks: [{{url: "http://127.0.0.1:9/services/{hook}", headers: {{X-Own: {header}}}}}]
recording: {{after: 1s}}
exporters: {{otlp: {{endpoint: "http://{user}:pw@127.0.0.1:9/v1/metrics"}}}}
"""
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 "
SAID = (
    "Authorization: Bearer {log} http://127.0.0.1:9/services/{hook}",
    "of: python train.py --hub-path {option} --lr 0.1",
    "with WANDB_API_KEY={environment} and again {environment}, file {file}",
)
XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name={kernel}, GPU has fallen off the bus."


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    (folder / "key").write_text(PLANTED["file"])
    log = folder / "train.log"
    log.write_text("begun\n")
    running = RunningAgent(folder, config=CONFIG.format(folder=folder, **PLANTED)).start()
    wait_for(lambda: running.metric("gpudiag_probe_success", probe="logs"), seconds=30)
    with log.open("a") as lines:
        lines.writelines(f"{OOM}{said.format(**PLANTED)}\n" for said in SAID)
    running.kernel(XID.format(**PLANTED))
    name = wait_for(lambda: running.firing("gpu-xid"), seconds=30)[0]["id"]
    wait_for((folder / "state" / "audit.jsonl").exists, seconds=30)
    words = ["ack", name, "--for", "1h", "--reason", f"see token={PLANTED['reason']}"]
    url = f"http://127.0.0.1:{running.port}"
    env = {"GPUDIAG_TOKEN": PLANTED["token"]}
    assert CliRunner().invoke(findings, [*words, "--agent", url], env=env).output == "done\n"
    # The black box writes in the background.
    wait_for(lambda: list((folder / "state" / "recordings").glob("*.tar.gz")), seconds=40)
    wait_for(lambda: archived(folder / "state"), seconds=90)
    yield running, name
    running.stop()


def archived(state):
    """The agent saves its history once a minute."""
    with contextlib.closing(sqlite3.connect(f"file:{state}/window.db?mode=ro", uri=True)) as db:
        return [1 for (data,) in db.execute("SELECT data FROM event") if b"planted" in data]


def bundled(agent, out, *words):
    running, name = agent
    command = [sys.executable, "-m", "gpudiag.agent", "bundle", name, "-o", str(out), *words]
    secrets = {"DEPLOY_TOKEN": PLANTED["environment"], "GPUDIAG_TOKEN": PLANTED["token"]}
    where = {"GPUDIAG_STATE_DIR": str(running.folder / "state")}
    command += ["--agent", f"http://127.0.0.1:{running.port}"]
    if "--config" not in words:
        command += ["--config", str(running.folder / "config.yaml")]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=360, check=False,
        env={**os.environ, **where, **secrets},
    )  # fmt: skip


def unpacked(path):
    with tarfile.open(path) as archive:
        members = {m.name.partition("/")[2]: m for m in archive.getmembers()}
        found = {name: archive.extractfile(m) for name, m in members.items()}
        return {name: file.read().decode() for name, file in found.items() if file}


@pytest.fixture(scope="module")
def ticket(agent, tmp_path_factory):
    out = tmp_path_factory.mktemp("ticket") / "ticket.tar.gz"
    done = bundled(agent, out)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_mode & 0o777 == 0o600
    return out, unpacked(out), done.stdout


def test_what_was_planted_is_there_to_be_found(agent):
    """The secrets did reach what a bundle is made of: else the next test says nothing."""
    state = agent[0].folder / "state"
    held = b"".join(p.read_bytes() for p in state.rglob("*") if p.is_file() and p.suffix != ".gz")
    for name in ("log", "option", "environment", "kernel", "reason", "argument"):
        assert PLANTED[name].encode() in held, name


@pytest.mark.parametrize("name", PLANTED)
def test_no_planted_secret_is_in_the_bundle(ticket, name):
    _, files, told = ticket
    for part in PLANTED[name].split("/"):
        assert not [f for f, text in files.items() if part in text or part in f]
        assert part not in told


def test_it_has_what_a_ticket_needs(agent, ticket):
    _, name = agent
    _, files, told = ticket
    listed = json.loads(files["bundle.json"])
    assert set(listed["files"]) == files.keys() - {"bundle.json"}
    assert {n: len(files[n].encode()) for n in listed["files"]} == listed["files"]
    assert (listed["version"], listed["finding"]) == (1, name)
    finding = json.loads(files["finding.json"])
    assert (finding["id"], finding["cause"]) == (name, "xid-79")
    assert finding["evidence"]
    assert finding["acknowledged"]["reason"].startswith("see token=")
    (line, *_) = json.loads(files["audit.json"])
    assert (line["decision"], line["plan"]["action"]) == ("dry_run", "command")
    assert {"kernel", "host"} & {one["area"] for one in json.loads(files["doctor.json"])["lines"]}
    assert "mode: dry-run" in files["config.yaml"]
    assert json.loads(files["probes.json"])
    assert "recording/metrics.om" in files
    assert "no memory snapshot of its job is kept" in listed["missing"]["leak-report.json"]
    for missing in listed["missing"]:
        assert f"missing {missing}: " in told


def test_draft_and_recording_replay_to_the_finding(agent, ticket, tmp_path):
    _, name = agent
    out, _, _ = ticket
    with tarfile.open(out) as archive:
        archive.extractall(tmp_path, filter="data")
    for what in ("ticket/recording", "ticket/incident.yaml"):
        command = [sys.executable, "-m", "gpudiag.agent", "replay", str(tmp_path / what), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        seen = [json.loads(line) for line in done.stdout.splitlines()]
        assert name in {f.get("id") for f in seen}, done.stderr + what


def test_too_small_a_size_is_kept_and_says_what_it_cost(agent, tmp_path):
    out = tmp_path / "small.tar.gz"
    assert bundled(agent, out, "--max-size", "8KiB").returncode == 0
    files = unpacked(out)
    listed = json.loads(files["bundle.json"])
    assert sum(listed["files"].values()) <= 8192
    assert "finding.json" in listed["files"]
    assert "exceed --max-size" in str(listed["missing"])


def test_an_unknown_finding_is_told_and_nothing_written(agent, tmp_path):
    out = tmp_path / "none.tar.gz"
    done = bundled((agent[0], "gpu-xid{uuid=none}"), out)
    assert (done.returncode, out.exists()) == (2, False)
    assert "`gpudiag findings` lists ids" in done.stderr


def test_without_the_agent_it_is_made_from_what_was_saved(agent, tmp_path):
    running, name = agent
    running.stop(9)
    try:
        out = tmp_path / "dead.tar.gz"
        done = bundled(agent, out)
        assert done.returncode == 0, done.stderr
        files = unpacked(out)
        finding = json.loads(files["finding.json"])
        assert (finding["id"], finding["state"]) == (name, "firing")
        assert finding["acknowledged"]["by"]
        assert "no agent answers" in json.loads(files["bundle.json"])["missing"]["probes.json"]
        for planted in PLANTED.values():
            for part in planted.split("/"):
                assert not [f for f, text in files.items() if part in text]
    finally:
        running.start()
