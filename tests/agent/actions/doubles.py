"""A world, levers and findings that a test holds in its hands."""

from dataclasses import dataclass, field

import msgspec

from gpudiag.agent.actions.audit import Audit, Line
from gpudiag.agent.actions.contract import RUNGS, Ending, Plan, Result
from gpudiag.agent.actions.director import Director, Settings
from gpudiag.agent.actions.guard import Allowance
from gpudiag.agent.actions.journal import Journal
from gpudiag.agent.actions.leases import NoLease
from gpudiag.agent.actions.ledger import Ledger
from gpudiag.agent.actions.policy import Policy, Step
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import subject

CHAT = subject(server="chat")


def hung(server="chat", raised_at=100.0, **changed):
    plain = Finding(
        symptom="serving-stalled",
        subject=subject(server=server),
        cause="engine-hung",
        confidence=0.9,
        severity="critical",
        state="firing",
        since=raised_at,
        raised_at=raised_at,
        summary="requests wait and nothing comes out",
    )
    return msgspec.structs.replace(plain, **changed)


@dataclass
class FakeWorld:
    """Everything a test may turn: the clock, what fires, whether there is load."""

    time: float = 200.0
    firing: list[Finding] = field(default_factory=list)
    age: float = 0.0
    load: bool | None = True
    opt_out: str = ""
    window: str = ""

    def now(self):
        return self.time

    def findings(self):
        return list(self.firing)

    def input_age(self):
        return self.age

    def recheck(self, finding):
        return next((f for f in self.firing if f.id == finding), None)

    def loaded(self, plan, since):
        return self.load

    def opted_out(self, plan):
        return self.opt_out

    def maintenance(self, now):
        return self.window


class FakeLever:
    """Remembers which plans it was pulled for, and ends as it is told."""

    def __init__(self, name, reversible=False, ending=Ending.DONE):
        self.name, self.rung, self.reversible = name, RUNGS[name], reversible
        self.ending, self.why_not = ending, ""
        self.done: list[Plan] = []
        self.undone: list[Plan] = []

    def unready(self, plan):
        return self.why_not

    def do(self, plan):
        if isinstance(self.ending, BaseException):
            raise self.ending
        self.done.append(plan)
        return Result(self.ending, f"{self.name} {self.ending}")

    def undo(self, plan):
        self.undone.append(plan)
        return Result(Ending.DONE, "taken back")


LADDER = (
    Step("unready", promise=60.0, hold=1, carry=True),
    Step("restart_container", promise=300.0, hold=1),
)


class Stage:
    """A director over doubles, with a real ledger and audit in a folder."""

    def __init__(self, folder, mode="auto", ladder=LADDER, allowance=None, levers=None):
        self.folder, self.mode, self.ladder = folder, mode, ladder
        self.allowance = allowance or Allowance()
        self.world = FakeWorld()
        self.levers = levers or {
            "unready": FakeLever("unready", reversible=True),
            "restart_container": FakeLever("restart_container"),
        }
        self.start()

    def start(self):
        """A fresh agent over the state that the last one left."""
        self.ledger = Ledger(self.folder / "actions.db")
        audit = Audit(self.folder / "audit.jsonl")
        self.journal = Journal(self.ledger, audit, self.world.now)
        policy = Policy({"l": self.ladder}, {"serving-stalled/*": "l"})
        settings = Settings(self.mode, "n1", self.allowance)
        self.director = Director(settings, policy, self.levers, self.journal, NoLease(), self.world)

    def tick(self, seconds=5.0, times=1):
        for _ in range(times):
            self.director.tick()
            self.world.time += seconds

    def lines(self):
        path = self.folder / "audit.jsonl"
        text = path.read_bytes().splitlines() if path.exists() else []
        return [msgspec.json.decode(line, type=Line) for line in text]

    def decisions(self):
        return [(line.decision, line.plan.action) for line in self.lines()]
