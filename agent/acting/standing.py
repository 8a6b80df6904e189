"""How acting stands, as it was last read: who asks for it never waits for the ledger's disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gpudiag.agent.actions import guard, history
from gpudiag.agent.actions.guard import Allowance
from gpudiag.agent.actions.history import Cause
from gpudiag.agent.actions.ledger import Ledger
from gpudiag.agent.findings.tried import Tried
from gpudiag.probes import Sample
from gpudiag.probes.errors import GpudiagError


@dataclass(frozen=True, slots=True)
class Standing:
    """`left` of this node's budget, None where nobody can tell; whether acting is stopped."""

    left: int | None = None
    broken: bool = True
    tried: Mapping[Cause, tuple[Tried, ...]] = field(default_factory=dict)

    def samples(self, now: float) -> Iterator[Sample]:
        """What is left of the budget, and the breaker."""
        if self.left is not None:
            yield Sample("gpudiag_action_budget_remaining", (), now, float(self.left))
        yield Sample("gpudiag_breaker_open", (), now, float(self.broken))


def read(ledger: Ledger, now: float, allowance: Allowance) -> Standing:
    """Ask the ledger; one that cannot be read stops all acting, as an open breaker does."""
    try:
        entries, broken = ledger.entries(), bool(ledger.breaker())
    except GpudiagError:
        return Standing()
    return Standing(guard.remaining(entries, now, allowance), broken, history.tried(entries))
