import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from gpudiag.agent.channel import endings
from gpudiag.agent.channel.connection import ALLOWANCE
from gpudiag.agent.channel.roster import Roster
from gpudiag.agent.channel.server import ChannelServer
from gpudiag.agent.clock import Clock
from tests.agent.channel.hook import Hook, Taken
from tests.running import wait_for


@pytest.fixture
def taken():
    return Taken()


@pytest.fixture
def serve(tmp_path, taken):
    running = []

    def start(**more):
        server = ChannelServer(tmp_path / "agent.sock", taken.put, Clock(), Roster(), **more)
        server.start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.stop()


def test_records_come_through_with_their_rank(tmp_path, serve, taken):
    serve()
    with Hook(tmp_path / "agent.sock", 3, world_size=4) as hook:
        hook.metrics(step_seconds=0.25)
        wait_for(lambda: taken.values("gpudiag_train_step_seconds"))
    # The rank has left: the sample that ends its series may have come too.
    assert taken.labels("gpudiag_train_step_seconds")[0] == {"job": "llama", "rank": "3"}
    assert taken.labels("gpudiag_train_info")[0]["pid"] == str(os.getpid())


def test_sixteen_ranks_at_once(tmp_path, serve, taken):
    serve()
    hooks = [Hook(tmp_path / "agent.sock", n, job=f"j{n}") for n in range(16)]
    for hook in hooks:
        hook.metrics(loss=1.0)
    wait_for(lambda: len({at["job"] for at in taken.labels("gpudiag_train_loss")}) == 16)
    for hook in hooks:
        hook.socket.close()


def test_a_malformed_packet_costs_only_itself(tmp_path, serve, taken):
    serve()
    with Hook(tmp_path / "agent.sock") as hook:
        hook.socket.send(b"{nonsense")
        hook.send(kind="from the future")
        hook.metrics(loss=1.0)
        wait_for(lambda: taken.values("gpudiag_train_loss"))
        counted = wait_for(lambda: count(taken, "malformed") and count(taken, "ignored"))
    assert counted == 1.0


def count(taken, outcome):
    of = [s for s in list(taken.samples) if s.metric == "gpudiag_channel_packets_total"]
    return next((s.value for s in reversed(of) if s.labels == (("outcome", outcome),)), 0.0)


def test_bytes_are_counted_each_way(tmp_path, serve, taken):
    server = serve()
    with Hook(tmp_path / "agent.sock") as hook:
        hook.socket.send(b"{nonsense" * 1000)
        asking = threading.Thread(target=lambda: server.command("llama", "ping", {}, timeout=1.0))
        wait_for(lambda: taken.labels("gpudiag_train_info"))
        asking.start()
        down = len(hook.socket.recv(65536))
        asking.join()
        wait_for(lambda: traffic(taken, "down") == down and traffic(taken, "up") > 9000)
    assert traffic(taken, "up") < 9500


def traffic(taken, direction):
    of = [s for s in list(taken.samples) if s.metric == "gpudiag_channel_bytes_total"]
    return next((s.value for s in reversed(of) if s.labels == (("direction", direction),)), 0.0)


CHILD = """
import json, os, socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
s.send(json.dumps({"kind": "hello", "pid": os.getpid(), "job": "llama", "rank": 2}).encode())
os.set_inheritable(s.fileno(), True)
if os.fork() == 0:
    time.sleep(600)
print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_a_killed_process_is_told_though_its_worker_holds_the_socket(tmp_path, serve, taken):
    serve()
    command = [sys.executable, "-c", CHILD, str(tmp_path / "agent.sock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout
        assert child.stdout.readline()
        wait_for(lambda: taken.labels("gpudiag_train_info"))
        child.kill()
        (line,) = wait_for(lambda: taken.lines("exit"))
        os.killpg(child.pid, 9)
    assert line == f"exit pid={child.pid} rank=2 reason=lost"


def test_one_that_the_agent_itself_ended_is_told_with_its_signal(
    tmp_path, serve, taken, monkeypatch
):
    server = serve()
    command = [sys.executable, "-c", CHILD, str(tmp_path / "agent.sock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout
        assert child.stdout.readline()
        wait_for(lambda: taken.labels("gpudiag_train_info"))
        monkeypatch.setattr(endings, "SETTLE_SECONDS", 60.0)
        child.terminate()
        server.signalled(child.pid, signal.SIGTERM)
        (line,) = wait_for(lambda: taken.lines("exit"))
        os.killpg(child.pid, 9)
    assert line.startswith(f"exit pid={child.pid} rank=2 code=-15 signal=SIGTERM")


def test_one_that_only_hangs_up_has_not_ended(tmp_path, serve, taken):
    serve()
    with Hook(tmp_path / "agent.sock"):
        wait_for(lambda: taken.labels("gpudiag_train_info"))
    wait_for(lambda: taken.lines("detached"))
    assert taken.lines("exit") == []


def test_a_command_goes_down_and_its_answer_up(tmp_path, serve, taken):
    server = serve()
    with Hook(tmp_path / "agent.sock", world_size=1) as hook:
        hook.metrics(steps_total=5, step_seconds=1.0)
        wait_for(lambda: taken.values("gpudiag_train_steps_total"))
        results = []
        asking = threading.Thread(
            target=lambda: results.extend(server.command("llama", "gc", {}, timeout=60.0))
        )
        asking.start()
        asked = hook.command()
        hook.send(kind="reply", id=asked["id"], ok=True, detail="collected 3")
        asking.join()
    assert (asked["name"], asked["at_step"]) == ("gc", 8)
    assert [(r.ok, r.detail) for r in results] == [(True, "collected 3")]


def test_another_user_is_refused(tmp_path, serve, taken, monkeypatch):
    server = serve(uids=[4321])
    monkeypatch.setattr(server, "_may", lambda uid: uid == 4321)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as knocking:
        knocking.connect(str(tmp_path / "agent.sock"))
        with contextlib.suppress(ConnectionError):
            assert knocking.recv(10) == b""
    wait_for(lambda: count(taken, "refused") == 1.0)


def test_who_may_connect(serve):
    server = serve(uids=[4321])
    assert [server._may(uid) for uid in (0, os.getuid(), 4321, 77)] == [True, True, True, False]


def test_one_that_talks_too_much_is_held_back(tmp_path, serve, taken):
    serve()
    with Hook(tmp_path / "agent.sock") as hook:
        hook.socket.setblocking(False)
        sent, refused, began = 0, 0, time.monotonic()
        while refused < 80 and sent < 20_000:
            try:
                hook.metrics(loss=1.0)
                sent += 1
            except BlockingIOError:
                refused += 1
                time.sleep(0.01)
        assert refused == 80
        came = len(taken.values("gpudiag_train_loss"))
        # So many at first, and so many more with each second that begins.
        assert came <= ALLOWANCE * (time.monotonic() - began + 2.0)


def test_a_second_agent_goes_on_without_a_channel(tmp_path, serve, taken):
    first, second = serve(), serve()
    assert first.status().ok
    assert "another agent listens" in second.status().detail


def test_the_socket_is_gone_after_the_end(tmp_path, serve):
    serve().stop()
    assert not (tmp_path / "agent.sock").exists()
