"""A real SIGKILL at every moment, and levers that leave their mark outside the process."""

from __future__ import annotations

import os
import signal

from gpudiag.agent.actions import audit, ledger
from gpudiag.agent.actions.levers.commands import Command, Listed
from gpudiag.agent.actions.levers.workload import Unready, Workload
from gpudiag.agent.actions.policy import Step
from tests.agent.actions.doubles import Stage, hung
from tests.agent.actions.dying import Moments

LADDER = (
    Step("unready", promise=10.0, hold=1, carry=True),
    Step("command", promise=10.0, hold=1, carry=True),
)
PLACES = (
    *((audit.Audit, "write"), (ledger.Ledger, "add"), (ledger.Ledger, "put")),
    *((owner, name) for owner in (Command, Unready) for name in ("do", "undo")),
)


def marks(folder, name):
    """How often the command with that name ran: each time `cp` leaves one file more."""
    return len(list(folder.glob(f"{name}*")))


def stage_for(folder):
    def copy(name):
        return ("cp", "--backup=numbered", "/dev/null", str(folder / name))

    listed = {"server=chat": Listed(copy("done"), copy("undone"))}
    workload = Workload(folder / "workload.json", lambda: 0.0, "chat")
    levers = {"unready": Unready(workload, lambda: ""), "command": Command("command", listed)}
    return Stage(folder, ladder=LADDER, levers=levers), workload


def live(folder, monkeypatch, at):
    """One life, to its end or to the SIGKILL at the moment `at`."""
    stage, _ = stage_for(folder)
    stage.world.firing = [hung()]
    stage.world.time += 1000.0 * (at is None)
    moments = Moments(at, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with monkeypatch.context() as patch:
        for owner, name in PLACES:
            patch.setattr(owner, name, moments.around(getattr(owner, name)))
        stage.tick(times=16)
        stage.world.firing = []
        stage.tick(times=22)
    stage.ledger.close()
    return moments.passed


def test_a_killed_agent_does_nothing_twice_and_takes_all_back(tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    count = live(tmp_path / "whole", monkeypatch, None)
    assert count >= 30
    for at in range(count):
        folder = tmp_path / str(at)
        folder.mkdir()
        child = os.fork()
        if child == 0:
            live(folder, monkeypatch, at)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        live(folder, monkeypatch, None)
        stage, workload = stage_for(folder)
        entries = {entry.plan.action: entry for entry in stage.ledger.entries()}
        told = entries["command"].detail + "".join(line.why for line in stage.lines())
        assert marks(folder, "done") <= 1
        assert marks(folder, "done") or "the agent ended" in told
        assert 1 <= marks(folder, "undone") <= 2
        assert workload.why_unready() == ""
        assert not any(entry.open for entry in entries.values())
        stage.ledger.close()
