from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpudiag.probes.torch as gd
from gpudiag.probes.torch import helper
from gpudiag.probes.torch.channel import OPENING, QUEUE, Channel, default_path
from gpudiag.probes.torch.wire import LIMIT
from tests.probes.torch.peer import Peer

LISTENER = """
import socket, sys, time
listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listening.bind(sys.argv[1]); listening.listen(1); print("up", flush=True)
connection = listening.accept()[0]; connection.recv(65536); print("hello", flush=True)
time.sleep(600)
"""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def channel(path: Path, clock: Clock | None = None) -> Channel:
    return Channel(path, lambda: {"kind": "hello"}, clock or Clock())


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that takes one connection, reads its hello and then nothing more."""
    command = [sys.executable, "-c", LISTENER, str(tmp_path / "agent.sock")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_hello_goes_first_and_the_queue_after(peer: Peer) -> None:
    sending = channel(peer.path)
    sending.send({"kind": "event"})
    assert sending.flush()
    assert [peer.read(), peer.read()] == [{"kind": "hello"}, {"kind": "event"}]
    sending.close()


def test_without_an_agent_it_tries_ever_more_rarely(tmp_path: Path) -> None:
    clock = Clock()
    sending = channel(tmp_path / "nobody", clock)
    tried = []
    for second in range(100):
        clock.now = float(second)
        before = sending._next_try
        sending.flush()
        tried += [second] if sending._next_try != before else []
    assert tried == [0, 1, 3, 7, 15, 31, 61, 91]


def test_a_full_queue_drops_the_oldest_and_counts(tmp_path: Path) -> None:
    sending = channel(tmp_path / "nobody")
    for number in range(QUEUE + 10):
        sending.send({"n": number})
    assert sending.dropped == 10
    assert sending._queue[0] == b'{"n":10}'


def test_what_is_too_large_for_a_packet_is_dropped(tmp_path: Path) -> None:
    sending = channel(tmp_path / "nobody")
    sending.send({"line": "x" * LIMIT})
    assert (sending.dropped, len(sending._queue)) == (1, 0)


def test_a_stopped_agent_and_a_full_socket_hold_nobody_up(
    agent: subprocess.Popen[str], tmp_path: Path
) -> None:
    sending = channel(tmp_path / "agent.sock")
    sending.flush()
    os.kill(agent.pid, signal.SIGSTOP)
    start = time.monotonic()
    for _ in range(1000):
        sending.send({"line": "x" * 5000})
        sending.flush()
    # One that waited at each, however shortly, would take minutes.
    assert time.monotonic() - start < 60
    assert sending.dropped > 0
    sending.close()


def test_a_killed_agent_is_found_again_when_it_is_back(
    agent: subprocess.Popen[str], tmp_path: Path
) -> None:
    clock = Clock()
    sending = channel(tmp_path / "agent.sock", clock)
    sending.flush()
    agent.kill()
    agent.wait()
    assert sending.receive() == []
    sending.send({"kind": "event"})
    assert not sending.flush()
    (tmp_path / "agent.sock").unlink()
    clock.now = 2.0
    with Peer(tmp_path / "agent.sock") as back:
        assert sending.flush()
        assert [back.read(), back.read()] == [{"kind": "hello"}, {"kind": "event"}]
    sending.close()


def test_a_folder_that_may_not_be_entered_is_an_absent_agent(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not channel(tmp_path / "file" / "agent.sock").flush()


def test_commands_come_and_noise_is_passed_over(peer: Peer) -> None:
    sending = channel(peer.path)
    sending.flush()
    peer.read()
    peer.command("gc")
    assert peer._connection is not None
    peer._connection.send(b"not json")
    peer._connection.send(b"[1]")
    assert [packet["name"] for packet in sending.receive()] == ["gc"]
    sending.close()


def test_the_path_is_the_users_own_without_a_shared_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUDIAG_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert default_path() == Path("/run/user/1000/gpudiag/agent.sock")
    monkeypatch.setenv("GPUDIAG_SOCKET", "/tmp/other.sock")
    assert default_path() == Path("/tmp/other.sock")


def test_the_socket_is_not_inherited_by_other_programs(peer: Peer) -> None:
    sending = channel(peer.path)
    sending.flush()
    descriptor = sending.fileno()
    assert descriptor is not None
    assert not os.get_inheritable(descriptor)
    sending.close()


def test_a_fork_waits_while_a_socket_is_opened(tmp_path: Path) -> None:
    gd.attach(socket=tmp_path / "nobody")
    gd.detach()
    opened = threading.Event()

    def opening() -> None:
        opened.set()
        OPENING.release()

    OPENING.acquire()
    threading.Timer(0.3, opening).start()
    child = os.fork()
    if child == 0:
        os._exit(0 if opened.is_set() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_thread_that_ends_late_hangs_up_all_the_same(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helper, "GOODBYE", 0.05)
    held, holding = threading.Event(), threading.Event()

    def tick() -> None:
        holding.set()
        held.wait()

    sending = channel(peer.path)
    sending.flush()
    working = helper.Helper(sending, tick, lambda _: None)
    working.start()
    holding.wait()
    sending.send({"kind": "bye"})
    working.stop()
    held.set()
    assert peer.to_the_end() == [{"kind": "hello"}, {"kind": "bye"}]
