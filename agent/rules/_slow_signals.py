"""Which rank each kind of measurement names as the slow one, among ranks that do the same work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpudiag.agent.rules import _teams
from gpudiag.agent.rules._teams import COMM, COMPUTE, DATA, LAG, LAST, Named, Team
from gpudiag.agent.rules.contract import Limits


@dataclass(frozen=True, slots=True)
class Signals:
    """Which rank each kind of measurement names; None where it names none or is not there.

    `late` comes last to collectives, `calm` waits least in them, `busy` computes (and waits for
    data) longest, `starved` waits longest for data.
    """

    late: Named | None
    calm: Named | None
    busy: Named | None
    starved: Named | None

    @property
    def meeting(self) -> Named | None:
        """Named by how the ranks meet, which shows a delay wherever it lies."""
        return self.late or self.calm

    @property
    def own(self) -> Named | None:
        """Named by its own times."""
        return self.busy or self.starved

    def confidence(self, rank: str) -> float:
        """How sure its naming is: by how many kinds, and which."""
        weights = ((self.late, 0.8), (self.calm, 0.75), (self.busy, 0.75), (self.starved, 0.55))
        agreeing = [weight for named, weight in weights if named and named.rank == rank]
        others = sum(1 for named, _ in weights if named and named.rank != rank)
        return min(max(agreeing) + 0.08 * (len(agreeing) - 1), 0.95) - 0.15 * others


def signals(team: Team, limits: Limits) -> Signals:
    """Look at every kind that all ranks report; limits are those of the straggler rule."""
    floor = limits["floor"] * team.step

    def named(metric: str, sign: float = 1.0) -> Named | None:
        if not team.known(metric):
            return None
        values = sign * team.times[metric]
        return _teams.standing_out(team, values, floor, limits["share"], limits["sigmas"])

    late = named(LAG)
    if late and team.known(LAST):
        last = team.times[LAST][:, team.ranks.index(late.rank)]
        late = late if float(np.nanmean(last)) >= limits["share"] else None
    busy = None
    if team.known(COMPUTE):
        work = team.times[COMPUTE] + (team.times[DATA] if team.known(DATA) else 0.0)
        busy = _teams.standing_out(team, work, floor, limits["share"], limits["sigmas"])
    return Signals(late, named(COMM, -1.0), busy, named(DATA))
