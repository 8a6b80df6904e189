from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gpudiag.probes.torch as gd
from tests.probes.torch.peer import Peer
from tests.probes.torch.training import train

ROOT = Path(__file__).parents[3]
SCRIPT = f"""
import sys; sys.path.insert(0, {str(ROOT)!r})
import gpudiag.probes.torch as gd
from tests.probes.torch.training import train
gd.attach()
train()
"""


Script = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def script(peer: Peer) -> Iterator[Script]:
    """Starts a training script that ends with the lines it is called with."""
    environment = {**os.environ, "GPUDIAG_SOCKET": str(peer.path)}
    processes: list[subprocess.Popen[bytes]] = []

    def start(then: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", SCRIPT + then]
        processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("then", "code", "bye"),
    [
        ("", 0, {"reason": "clean", "line": ""}),
        (
            "raise ValueError('bad batch')",
            1,
            {"reason": "exception", "line": "ValueError: bad batch"},
        ),
    ],
)
def test_the_end_is_told(
    peer: Peer, script: Script, then: str, code: int, bye: dict[str, str]
) -> None:
    process = script(then)
    assert peer.to_the_end()[-1] == {"kind": "bye", **bye}
    assert process.wait() == code


@pytest.mark.parametrize("how", ["SIGKILL", "SIGABRT"])
def test_a_death_is_an_end_without_a_goodbye(peer: Peer, script: Script, how: str) -> None:
    process = script(f"import os; os.kill(os.getpid(), {int(signal.Signals[how])})")
    assert peer.to_the_end()[-1]["kind"] != "bye"
    assert process.wait() == -signal.Signals[how]


def test_a_cpu_allocation_that_fails_is_told_as_oom(peer: Peer, script: Script) -> None:
    process = script("import torch; torch.empty(1 << 60)")
    oom = peer.until(kind="event", type="oom")
    assert "can't allocate memory" in oom["line"]
    assert process.wait() == 1


def test_a_forked_child_holds_no_connection_and_may_train_on_its_own(peer: Peer) -> None:
    gd.attach(socket=peer.path)
    train(1)
    peer.until(kind="hello")
    child = multiprocessing.get_context("fork").Process(target=train, args=(1,))
    child.start()
    gd.detach()
    assert peer.to_the_end()[-1]["kind"] == "bye"
    peer.seen.clear()
    told = peer.to_the_end()
    child.join()
    assert (told[0]["kind"], told[0]["pid"]) == ("hello", child.pid)
    assert told[-1] == {"kind": "bye", "reason": "clean", "line": ""}
    assert child.exitcode == 0


def test_spawned_workers_say_nothing(tmp_path: Path, peer: Peer) -> None:
    body = SCRIPT.replace("train()", "")
    (tmp_path / "train.py").write_text(
        body + "from tests.probes.torch.training import *\n"
        "if __name__ == '__main__':\n"
        "    loader = data(2)\n"
        "    loader.multiprocessing_context = 'spawn'\n"
        "    for _ in loader: gd.step()\n"
    )
    environment = {**os.environ, "GPUDIAG_SOCKET": str(peer.path)}
    process = subprocess.Popen([sys.executable, tmp_path / "train.py"], env=environment)
    peer.to_the_end()
    assert process.wait() == 0
    peer._listening.settimeout(0.2)
    with pytest.raises(TimeoutError):
        peer.read()


def test_stacks_are_told_while_the_main_thread_is_blocked(peer: Peer, script: Script) -> None:
    script("import time\ndef waits_here(): time.sleep(600)\nwaits_here()")
    while peer.value("gpudiag_train_steps_total") < 12:
        pass
    peer.command("dump_stacks")
    dump = peer.until(kind="event", type="hang_dump")
    assert "thread MainThread" in dump["line"]
    assert "waits_here" in dump["line"]
    assert peer.until(kind="reply", id="dump_stacks")["ok"]
