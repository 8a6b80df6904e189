"""A training process and the agent, each in a process of its own."""

import json
import os
import subprocess
import sys
import time

from click.testing import CliRunner

from gpudiag.agent.commands import run, top
from tests.agent.channel.hook import Hook
from tests.running import wait_for
from tests.simdriver.state import uuid_of

TRAINER = """
import json, os, socket, time
agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
agent.connect(os.environ["GPUDIAG_SOCKET"])
said = {"kind": "hello", "pid": os.getpid(), "job": os.environ["GPUDIAG_JOB"], "rank": 0}
agent.send(json.dumps(said).encode())
time.sleep(0.5)
os.kill(os.getpid(), 11)
"""

TORCH = """
import pathlib, sys, time, torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while not pathlib.Path(sys.argv[1]).exists():
    model(torch.ones(8, 4)).sum().backward()
    optimizer.step()
    time.sleep(0.02)
"""


def test_a_rank_is_seen_beside_its_gpu_until_it_ends(start):
    agent = start()
    with Hook(agent.socket, 3, world_size=4, uuid="GPU-x") as hook:
        hook.metrics(step_seconds=0.25)
        wait_for(lambda: agent.metric("gpudiag_train_step_seconds", rank="3") == [0.25])
        url = f"http://127.0.0.1:{agent.port}"
        shown = CliRunner().invoke(top.command, ["--once", "--agent", url]).output
    assert "250.0 ms" in shown
    assert str(os.getpid()) in shown
    wait_for(lambda: not agent.metric("gpudiag_train_step_seconds"))


def test_memory_outside_torch_is_told_by_driver_and_hook_together(start, sim):
    sim.process(0, os.getpid(), 5 << 30)
    agent = start()
    with Hook(agent.socket, 3, uuid=uuid_of(0)) as hook:

        def outside():
            row = ["gpudiag_torch_reserved_bytes", {}, 4 << 30]
            hook.send(kind="metrics", time=time.time(), values=[row])
            return agent.metric("gpudiag_torch_non_torch_bytes", job="llama", rank="3")

        assert wait_for(outside) == [1 << 30]


def test_the_parent_tells_the_signal_that_ended_the_training(start):
    # However late the parent's word comes, the death waits for it.
    agent = start(before="from gpudiag.agent.channel import endings as e; e.SETTLE_SECONDS = 60\n")
    command = ["--job", "llama", "--socket", str(agent.socket), "--", sys.executable, "-c", TRAINER]
    assert CliRunner().invoke(run.command, command).exit_code == 128 + 11
    path = "/api/v1/events?source=process&type=exit"
    (event,) = wait_for(lambda: json.loads(agent.get(path))["events"])
    assert "rank=0 code=-11 signal=SIGSEGV" in event["line"]


def test_a_script_that_knows_nothing_of_it_is_watched(start, tmp_path):
    agent = start()
    (tmp_path / "tiny.py").write_text(TORCH)
    command = [sys.executable, "-c", "from gpudiag.agent.cli import main; main()", "run"]
    seen = tmp_path / "seen"
    script = [sys.executable, str(tmp_path / "tiny.py"), str(seen)]
    command += ["--socket", str(agent.socket), "--", *script]
    with subprocess.Popen(command) as training:
        try:
            steps = wait_for(lambda: agent.metric("gpudiag_train_steps_total", job="tiny"), 30.0)
        finally:
            seen.touch()
    assert steps[0] > 0
    assert training.returncode == 0
