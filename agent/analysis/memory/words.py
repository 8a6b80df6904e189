"""The sentences of a verdict: sizes as people read them, growth, evidence, next steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpudiag.agent.analysis.memory import causes, figures
from gpudiag.agent.analysis.memory.asked import Holder
from gpudiag.agent.analysis.memory.digest import Device
from gpudiag.agent.analysis.memory.growth import Growth
from gpudiag.agent.analysis.memory.outlook import Sums
from gpudiag.agent.analysis.memory.timeline import Timeline


def leak(leaks: Sequence[Growth], points: Timeline, held_by: Holder | None) -> str:
    """The verdict's sentence: who, where, how fast."""
    worst = leaks[0]
    rate = f"{figures.signed(worst.rate)} per {points.unit}"
    hour = f" ({figures.signed(worst.per_hour)}/h)" if worst.per_hour else ""
    others = f" With {len(leaks) - 1} more sites: {figures.signed(sum(g.rate for g in leaks))} per"
    more = f"{others} {points.unit}." if len(leaks) > 1 else ""
    if held_by:
        graph = "with a graph" if held_by.graph else "without a graph"
        name = f"{held_by.kind} `{held_by.name}`".strip()
        where = f" in {held_by.file}:{held_by.line}" if held_by.file else ""
        what = f"{held_by.count:,} tensors" if held_by.count else "tensors"
        return f"{name}{where} holds {what} {graph}: {rate}{hour}.{more}"
    if not worst.site.id:
        return f"Memory without any frame grows: {rate}{hour}.{more}"
    name = f"{worst.site.short} {worst.site.function}".strip()
    return f"{name} keeps what it allocates: {rate}{hour}.{more}"


def leak_evidence(leaks: Sequence[Growth], points: Timeline, why: str) -> tuple[str, ...]:
    """What shows that it leaks."""
    worst = leaks[0]
    size = figures.size
    facts = [
        f"{size(worst.first)} -> {size(worst.last)} in {worst.count_first} ->"
        f" {worst.count_last} blocks over {points.points} moments",
        f"95 % band {size(worst.low)} to {size(worst.high)} per {points.unit}; {why}",
    ]
    if worst.kept or worst.new:
        facts.append(
            f"since the last snapshot but one {worst.kept} of its blocks stayed,"
            f" {worst.new} are new, {worst.gone} went"
        )
    return tuple(facts)


def reconciled(sums: Sums | None) -> tuple[str, ...]:
    """How much of the growth the call sites explain."""
    if sums is None or not sums.live:
        return ()
    parts = [f"live {figures.signed(sums.live)}: {figures.signed(sums.named)} at named lines"]
    if sums.bare:
        parts.append(f"{figures.signed(sums.bare)} without frames")
    if abs(sums.rest) > 0.02 * abs(sums.live):
        parts.append(f"{figures.signed(sums.rest)} in slack of blocks or unexplained")
    parts.append(f"reserved {figures.signed(sums.reserved)}")
    if sums.outside is not None:
        parts.append(f"outside torch {figures.signed(sums.outside)}")
    return (", ".join(parts),)


def after_leak(cause: str, held_by: Holder | None) -> tuple[str, ...]:
    """The next step for a leak's cause."""
    cures = {
        causes.RETAINED: "Keep `.item()` or `.detach()` of it, or drop what holds it.",
        causes.LOGGED: "Move it to the host before keeping it (`.cpu()`), or bound it.",
        causes.COMM: "Destroy process groups that are made again (`destroy_process_group`).",
    }
    first = () if held_by else ("Look at that line: what outlives the step holds its result.",)
    return (*first, cures.get(cause, "See the runbook."))


def fragments(device: Device) -> tuple[str, ...]:
    """Reserved memory told apart: what could be given back and what cannot."""
    free = sum(pool.free for pool in device.pools)
    given = sum(pool.releasable for pool in device.pools)
    private = sum(pool.held for pool in device.pools if pool.private)
    size = figures.size
    return (
        f"reserved {size(device.reserved)}, free in it {size(free)}: {size(given)} given back by"
        f" empty_cache, {size(private)} in private pools, {size(free - given - private)} held by"
        " live blocks",
    )


def largest(device: Device) -> tuple[str, ...]:
    """The parts of what is live, the largest first."""
    parts: Counter[str] = Counter()
    for hold in device.holds:
        parts[hold.category] += hold.bytes
    told = ", ".join(f"{category} {figures.size(n)}" for category, n in parts.most_common(4))
    return (f"live {figures.size(device.live + device.pending)}: {told}",) if told else ()
