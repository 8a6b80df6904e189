"""Fixtures: examples that are stopped with the test, and an agent's end of their channel."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudiag.agent.channel.roster import Roster
from gpudiag.agent.channel.server import ChannelServer
from gpudiag.agent.clock import Clock
from tests.agent.channel.hook import Taken
from tests.examples.launching import Training, train
from tests.running import RunningAgent


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Training]]:
    """Start an example; see `train`."""
    started: list[Training] = []

    def one(script: str, *flags: str, **options) -> Training:
        training = train(tmp_path / f"{len(started)}.log", script, *flags, **options)
        started.append(training)
        return training

    yield one
    for training in started:
        training.stop()


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[RunningAgent]:
    """A real agent in a process of its own, on this machine as it is."""
    folder = tmp_path / "agent"
    folder.mkdir()
    # Fewer stretches than by default, or every test would wait for a minute.
    running = RunningAgent(folder, config="rules: {straggler: {thresholds: {bins: 6}}}")
    yield running.start()
    running.send(signal.SIGCONT)
    running.stop(signal.SIGKILL)


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "channel.sock"


@pytest.fixture
def taken() -> Taken:
    """What `channel` has handed on."""
    return Taken()


@pytest.fixture
def channel(socket: Path, taken: Taken) -> Iterator[ChannelServer]:
    """The agent's channel in this process, where its events and its commands are at hand."""
    server = ChannelServer(socket, taken.put, Clock(), Roster())
    server.start()
    yield server
    server.stop()
