"""Acting as one part of the daemon: a thread, what it shows, and what a person may tell it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gpudiag.agent.acting import standing
from gpudiag.agent.acting.counting import Counts
from gpudiag.agent.acting.planned import Planned, plain
from gpudiag.agent.actions import guard
from gpudiag.agent.actions.audit import Audit, Sink
from gpudiag.agent.actions.contract import Lease, Lever
from gpudiag.agent.actions.director import Director, Settings
from gpudiag.agent.actions.guard import Allowance
from gpudiag.agent.actions.journal import Journal
from gpudiag.agent.actions.leases import FileLease, NoLease
from gpudiag.agent.actions.ledger import Entry, Ledger
from gpudiag.agent.actions.levers.workload import Workload
from gpudiag.agent.actions.policy import Ladder, Policy, Step, shipped
from gpudiag.agent.actions.world import World
from gpudiag.agent.config.acting import Actions, LadderStep
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.findings.tried import Tried
from gpudiag.probes import Sample, labels

log = logging.getLogger(__name__)

TICK_SECONDS = 5.0
SHOWN = 200


class Actor:
    """Runs the director every 5 s; other threads may look, approve, deny and reset.

    A ledger in `state` that cannot be used stops acting, and nothing else of the agent.
    """

    def __init__(
        self,
        config: Actions,
        state: Path,
        node: str,
        world: World,
        levers: Mapping[str, Lever],
        secret: Callable[[str], str],
        workload: Workload | None = None,
        mirrors: Sequence[Sink] = (),
        lease: Lease | None = None,
    ) -> None:
        self.workload = workload
        self.token = secret(config.token)
        self.mode = config.mode
        self._allowance = allowance(config)
        self._counts = Counts()
        self._planned = Planned()
        sinks: list[Sink] = [self._counts, self._planned, *mirrors]
        if config.webhooks:
            # httpx costs the agent some MiB: only who posts pays them.
            from gpudiag.agent.acting.telling import Teller

            sinks.append(Teller(config.webhooks, node, secret))
        self._ledger = Ledger(state / "actions.db")
        journal = Journal(self._ledger, Audit(state / "audit.jsonl", sinks), world.now)
        if lease is None:
            lease = FileLease(Path(config.lease), node, world.now) if config.lease else NoLease()
        self._now = world.now
        settings = Settings(config.mode, node, self._allowance)
        self._director = Director(settings, policy(config), levers, journal, lease, world)
        self._standing = self._read()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="actions", daemon=True)

    def start(self) -> None:
        """Begin to act."""
        self._thread.start()

    def stop(self) -> None:
        """Take no new step; one under way is found again at the next start."""
        self._stopping.set()

    def approve(self, plan: str, actor: str) -> bool:
        """See `Director.approve`."""
        return self._director.approve(plan, actor)

    def deny(self, plan: str, actor: str) -> bool:
        """See `Director.deny`."""
        return self._director.deny(plan, actor)

    def reset_breaker(self, actor: str) -> bool:
        """Let acting go on; False where the breaker was closed."""
        if not self._ledger.breaker():
            return False
        log.warning("the breaker was reset by %s", actor)
        self._ledger.reset_breaker()
        self._standing = self._read()
        return True

    def shown(self) -> dict[str, Any]:
        """The ledger as the API gives it and what a dry run would do, newest first; raises
        `GpudiagError` if malformed.
        """
        entries = self._ledger.entries()
        now = self._now()
        listed = [_plain(entry) for entry in entries[: -SHOWN - 1 : -1]] + self._planned.shown()
        return {
            "mode": self.mode,
            "breaker": self._ledger.breaker(),
            "budget_remaining": guard.remaining(entries, now, self._allowance),
            "actions": sorted(listed, key=lambda one: -one["plan"]["made_at"])[:SHOWN],
        }

    def samples(self, now: float) -> list[Sample]:
        """Counts of outcomes, what is left of the budget, and the breaker.

        As of the last round: whoever asks holds the window's lock, and the ledger's disk may stall.
        """
        counted = [
            Sample("gpudiag_actions_total", labels(action=a, outcome=o), now, float(count))
            for (a, o), count in sorted(dict(self._counts.of).items())
        ]
        return [*counted, *self._standing.samples(now)]

    def tried(self, finding: Finding) -> tuple[Tried, ...]:
        """What was done about its cause before, what helped most often first."""
        return self._standing.tried.get((finding.symptom, finding.cause), ())

    def _read(self) -> standing.Standing:
        return standing.read(self._ledger, self._now(), self._allowance)

    def _run(self) -> None:
        while not self._stopping.wait(TICK_SECONDS):
            try:
                self._director.tick()
            except Exception:
                log.exception("acting failed in this round; nothing more is done in it")
            self._standing = self._read()


def allowance(config: Actions) -> Allowance:
    """The guard's limits as configured."""
    budget = config.budget
    return Allowance(
        window=budget.window,
        target=budget.target,
        job=budget.job,
        node=budget.node,
        restarts=budget.restarts,
        cooldown=config.cooldown,
        trips=config.breaker,
    )


def policy(config: Actions) -> Policy:
    """The shipped policy under the configuration's; raises `UsageError` on a slip."""
    ladders: dict[str, Ladder] = {
        name: tuple(map(_step, steps)) for name, steps in config.ladders.items()
    }
    return shipped().under(ladders, config.policy)


def _step(step: LadderStep) -> Step:
    return Step(step.action, float(step.promise), step.hold, step.carry, step.args)


def _plain(entry: Entry) -> dict[str, Any]:
    return {**msgspec.to_builtins(entry), "plan": plain(entry.plan)}
