import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.running import RunningAgent
from tests.simdriver.state import SimDriver


@pytest.fixture
def start(tmp_path: Path, sim: SimDriver) -> Iterator[Callable[..., RunningAgent]]:
    """Start an agent over the simulated driver; it is ended with the test."""
    started: list[RunningAgent] = []

    def one(**options) -> RunningAgent:
        folder = tmp_path / "agent"
        folder.mkdir(exist_ok=True)
        agent = RunningAgent(folder, sim.environment, **options)
        started.append(agent)
        return agent.start()

    yield one
    for agent in started:
        agent.stop(signal.SIGKILL)
