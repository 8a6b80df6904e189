from __future__ import annotations

from typing import Any

import pytest
import torch

import gpudiag.probes.torch as gd
from gpudiag.probes.torch.commands import PENDING, Commands
from gpudiag.probes.torch.guard import FAILURES
from tests.probes.torch.peer import Peer


class Agent:
    """Commands with a handler that notes what it was called with."""

    def __init__(self) -> None:
        self.done: list[dict[str, Any]] = []
        self.replies: list[dict[str, Any]] = []
        self.hurried = 0
        self.commands = Commands(
            {"ping": self.handle}, {"gc": self.handle, "bad": self.fail},
            self.replies.append, self.hurry,
        )  # fmt: skip

    def handle(self, args: dict[str, Any]) -> tuple[bool, str, dict[str, Any]]:
        self.done.append(args)
        return True, "", {}

    def fail(self, args: dict[str, Any]) -> tuple[bool, str, dict[str, Any]]:
        raise ValueError("no such thing")

    def hurry(self) -> None:
        self.hurried += 1

    def send(self, name: str, **more: Any) -> None:
        self.commands.came({"kind": "command", "id": name, "name": name, **more})


def test_a_command_waits_for_the_boundary_and_asks_for_it() -> None:
    agent = Agent()
    agent.send("gc", args={"n": 1})
    assert (agent.done, agent.hurried) == ([], 1)
    agent.commands.run(5)
    assert agent.done == [{"n": 1}]
    assert agent.replies[0]["ok"]


def test_ping_needs_no_boundary() -> None:
    agent = Agent()
    agent.send("ping")
    assert len(agent.done) == 1


def test_a_step_is_met_exactly() -> None:
    agent = Agent()
    agent.send("gc", at_step=7)
    for step in (5, 6):
        agent.commands.run(step)
    assert (agent.done, agent.hurried) == ([], 3)
    agent.commands.run(7)
    assert len(agent.done) == 1


def test_a_step_that_is_past_is_refused() -> None:
    agent = Agent()
    agent.send("gc", at_step=4)
    agent.commands.run(5)
    assert agent.done == []
    assert agent.replies[0]["detail"] == "step 4 is past, this rank ended step 5"
    assert agent.replies[0]["fields"] == {"ended_step": 5}


def test_what_is_unknown_and_what_is_too_much_is_refused() -> None:
    agent = Agent()
    agent.send("dance")
    for _ in range(PENDING + 1):
        agent.send("gc")
    assert [reply["ok"] for reply in agent.replies] == [False, False]


def test_a_failure_is_the_answer() -> None:
    agent = Agent()
    agent.send("bad")
    agent.commands.run(1)
    assert agent.replies[0]["detail"] == "ValueError: no such thing"
    FAILURES.counts.clear()


@pytest.fixture
def steps(peer: Peer) -> Peer:
    """An attached process that has made two steps."""
    gd.attach(socket=peer.path)
    gd.step()
    gd.step()
    peer.until(kind="hello")
    return peer


def asked(peer: Peer, name: str, **args: Any) -> dict[str, Any]:
    """The reply to a command after the next step."""
    peer.command(name, **args)
    while not any(p.get("id") == name for p in peer.seen):
        gd.step()
        peer.read()
    return next(p for p in peer.seen if p.get("id") == name)


def test_gc_tells_what_it_found(steps: Peer) -> None:
    cycle: list[Any] = [torch.zeros(8)]
    cycle.append(cycle)
    del cycle
    assert asked(steps, "gc")["fields"]["unreachable"] >= 1


@pytest.mark.parametrize("name", ["snapshot", "record_steps", "empty_cache"])
def test_without_cuda_the_allocators_commands_say_so(steps: Peer, name: str) -> None:
    reply = asked(steps, name)
    assert not reply["ok"]
    assert "no CUDA allocator" in reply["detail"]
    assert not FAILURES.counts


def test_a_census_comes_as_an_event(steps: Peer) -> None:
    history = [torch.zeros(89) for _ in range(2000)]
    assert asked(steps, "census", seconds=30)["ok"]
    event = next(p for p in steps.seen if p.get("type") == "census")
    assert event["line"].startswith(f"{len(history)} float32 89 on cpu: held by history list")


def test_callbacks_do_what_only_the_script_can(steps: Peer) -> None:
    assert "gd.on" in asked(steps, "micro_batch", factor=2)["detail"]
    steps.seen.clear()
    factors: list[float] = []

    def smaller(factor: float) -> None:
        factors.append(factor)

    gd.on("reduce_micro_batch", smaller)
    assert asked(steps, "micro_batch", factor=2)["ok"]
    assert factors == [2.0]


@pytest.mark.parametrize("factor", [0, -2, 1, "inf"])
def test_a_factor_that_divides_nothing_never_reaches_the_script(
    steps: Peer, factor: float | str
) -> None:
    gd.on("reduce_micro_batch", lambda factor: None)
    assert "cannot be divided" in asked(steps, "micro_batch", factor=factor)["detail"]


def test_checkpoint_and_exit_saves_and_leaves_cleanly(steps: Peer) -> None:
    saved: list[str] = []
    gd.on("checkpoint", lambda: saved.append("saved"))
    with pytest.raises(SystemExit) as left:
        asked(steps, "checkpoint_and_exit")
    assert (saved, left.value.code) == (["saved"], 75)


def test_without_a_checkpoint_it_does_not_exit(steps: Peer) -> None:
    assert not asked(steps, "checkpoint_and_exit")["ok"]
    gd.step()
