"""Every action that a policy may name can be configured, and says so where it is not."""

from __future__ import annotations

import socket

from gpudiag.agent import config
from gpudiag.agent.acting import build, levers
from gpudiag.agent.actions.contract import RUNGS
from gpudiag.agent.actions.levers.workload import Workload
from gpudiag.agent.config.serving import ServingServer
from tests.agent.actions.test_guard import plan
from tests.running import free_port

EVERYTHING = """
actions:
  workload: chat
  servers:
    chat: {url: "http://127.0.0.1:1", engine: vllm, key: "@/key"}
    bert: {url: "http://127.0.0.1:1", engine: triton, model: bert}
  gateways: {server=chat: {do: {url: "http://127.0.0.1:1", headers: {X-Key: "@/key"}}}}
  commands: {node=n1: {argv: ["true"]}}
  units: {server=chat: vllm.service}
"""
OF_THE_CLUSTER = {"mark_node", "evict_pod"}


def built(text, tmp_path, ranks=None):
    read = config.parse(text, "g.yaml").actions
    workload = Workload(tmp_path / "w", lambda: 0.0, read.workload) if read.workload else None
    return levers.build(
        read, lambda value: value, ranks=ranks, pids=lambda _: [], workload=workload
    )


def test_with_everything_every_action_has_its_lever(tmp_path):
    made = built(EVERYTHING, tmp_path, ranks=object())
    assert made.keys() == RUNGS.keys() - OF_THE_CLUSTER
    assert all(name == lever.name and lever.rung == RUNGS[name] for name, lever in made.items())


def test_with_nothing_there_is_none(tmp_path):
    assert built("", tmp_path) == {}


def test_readiness_is_no_lever_while_nobody_knows_of_another_replica(tmp_path):
    made = built("actions: {workload: chat}", tmp_path)
    assert "actions.floor is not set" in made["unready"].unready(plan())


def test_a_floor_that_does_not_answer_is_no_yes(tmp_path):
    made = built('actions: {workload: chat, floor: "http://127.0.0.1:1"}', tmp_path)
    assert "no other replica" in made["unready"].unready(plan())


def test_the_workloads_sockets_are_those_on_its_port():
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        servers = [
            ServingServer("chat", f"http://127.0.0.1:{port}"),
            ServingServer("b", "http://b"),
        ]
        before = build.sockets_of("chat", servers)()
        assert len(before) == 1
    assert build.sockets_of("chat", servers)() == frozenset()
    with socket.create_server(("127.0.0.1", port)):
        assert not before & build.sockets_of("chat", servers)()
    assert build.sockets_of("other", servers)() == frozenset()
