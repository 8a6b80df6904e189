"""A training process and the agent, each in a process of its own."""

import os
import sqlite3
import sys
import time

from click.testing import CliRunner

from gpudiag.agent.commands import run, top
from tests.agent.channel.hook import Hook
from tests.running import wait_for

TRAINER = """
import json, os, socket, time
agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
agent.connect(os.environ["GPUDIAG_SOCKET"])
said = {"kind": "hello", "pid": os.getpid(), "job": os.environ["GPUDIAG_JOB"], "rank": 0}
agent.send(json.dumps(said).encode())
time.sleep(0.5)
os.kill(os.getpid(), 11)
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


def test_the_parent_tells_the_signal_that_ended_the_training(start):
    agent = start()
    command = ["--job", "llama", "--socket", str(agent.socket), "--", sys.executable, "-c", TRAINER]
    assert CliRunner().invoke(run.command, command).exit_code == 128 + 11
    time.sleep(1.0)
    agent.stop()
    with sqlite3.connect(agent.folder / "state/window.db") as db:
        told = b"".join(data for (data,) in db.execute("SELECT data FROM event"))
    db.close()
    assert b"rank=0 code=-11 signal=SIGSEGV" in told
