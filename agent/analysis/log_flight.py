"""Several ranks' flight-recorder dumps side by side: who never entered, or entered another one.

Collectives are matched by process group and number. The group that waits for a rank which itself
waits for nobody is where it began; the others follow from it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gpudiag.agent.analysis.log_flight_dump import Dump, Entry, GroupLog
from gpudiag.agent.analysis.log_flight_pairs import Pair, pairs

Kind = Literal["missing", "operation", "order", "size", "type", "stuck", "alone"]

# Of these each rank may give and take its own amount.
_UNEVEN = ("all_to_all", "alltoall", "scatter", "gather", "coalesced", "_v")
_EVEN = frozenset({"all_gather", "_all_gather_base", "reduce_scatter", "_reduce_scatter_base"})


@dataclass(frozen=True, slots=True)
class Flight:
    """One verdict: in `group`, at collective `sequence`, over `ranks`, for whom `waiting` wait.

    `missing`: they never entered; `operation`, `size`, `type`: they entered another one; `order`:
    they entered the same ones in another order; `stuck`: all entered and none left; `alone`: the
    dumps of `unseen` would tell. `since` is epoch seconds; `pairwise`: not a collective but a send
    or receive; `follows`: another explains it.
    """

    kind: Kind
    group: str
    sequence: int
    operation: str
    ranks: tuple[int, ...]
    waiting: tuple[int, ...]
    unseen: tuple[int, ...]
    since: float
    detail: str = ""
    pairwise: bool = False
    follows: bool = False


def judge(dumps: Sequence[Dump]) -> list[Flight]:
    """A verdict for each group in which something waits, the one that explains the others first."""
    groups: defaultdict[str, dict[int, GroupLog]] = defaultdict(dict)
    for dump in dumps:
        for name, log in dump.groups.items():
            groups[name][dump.rank] = log
    seen = {dump.rank for dump in dumps}
    found = [f for name, logs in groups.items() if (f := _group(name, logs, seen))]
    busy = frozenset(rank for one in found for rank in one.waiting)
    found += [_paired(pair) for pair in pairs(dumps, busy)]
    waiting = {rank for one in found for rank in one.waiting}
    found.sort(key=lambda one: (not one.ranks or bool(set(one.ranks) & waiting), one.since))
    return [replace(one, follows=index > 0) for index, one in enumerate(found)]


def _paired(pair: Pair) -> Flight:
    first = pair.first
    return Flight(
        pair.kind,
        first.group,
        first.point.sequence,
        first.lacking if pair.kind == "missing" else first.words,
        pair.ranks,
        pair.waiting,
        pair.unseen,
        first.point.created,
        pair.detail,
        pairwise=True,
    )


def _group(name: str, logs: dict[int, GroupLog], seen: set[int]) -> Flight | None:
    members = sorted({*logs, *(rank for log in logs.values() for rank in log.ranks)})
    # A rank that dumped and knows nothing of the group has entered nothing in it.
    empty = {rank: GroupLog(name) for rank in members if rank in seen and rank not in logs}
    logs = {**logs, **empty}
    unseen = tuple(rank for rank in members if rank not in seen)
    title = next((log.title for log in logs.values() if log.title), name)
    for sequence in _numbers(logs):
        at = {r: e for r, log in logs.items() if (e := log.entries.get(sequence))}
        found = _missing(sequence, at, logs) or _differing(sequence, at, logs)
        found = found or _waiting(at, unseen)
        if found:
            kind, ranks, detail = found
            others = tuple(sorted(r for r in at if r not in ranks))
            operation = _common(e.operation for r, e in at.items() if r in others or not others)
            since = max(entry.created for entry in at.values())
            return Flight(kind, title, sequence, operation, ranks, others, unseen, since, detail)
    return None


def _numbers(logs: dict[int, GroupLog]) -> list[int]:
    """The collectives that every ring still holds, in order."""
    first = max((min(log.entries) for log in logs.values() if log.entries), default=0)
    return sorted({n for log in logs.values() for n in log.entries if n >= first})


_Found = tuple[Kind, tuple[int, ...], str]


def _missing(sequence: int, at: dict[int, Entry], logs: dict[int, GroupLog]) -> _Found | None:
    absent = sorted(rank for rank, log in logs.items() if log.last < sequence)
    if not absent or all(entry.done for entry in at.values()):
        return None
    last = ", ".join(f"rank {rank}: {logs[rank].last}" for rank in absent[:4])
    return "missing", tuple(absent), f"last entered by {last}"


def _differing(sequence: int, at: dict[int, Entry], logs: dict[int, GroupLog]) -> _Found | None:
    usual = _common(entry.operation for entry in at.values())
    odd = tuple(sorted(rank for rank, entry in at.items() if entry.operation != usual))
    if odd:
        other = at[odd[0]].operation
        after = logs[odd[0]].entries.get(sequence + 1)
        swapped = after is not None and after.operation == usual
        words = f"{other} where others entered {usual}"
        return "order" if swapped else "operation", _blamed(odd, at), words
    for kind, detail in _DETAILS:
        told = {rank: detail(usual, entry) for rank, entry in at.items()}
        same = _common(told.values())
        odd = tuple(sorted(rank for rank, text in told.items() if text != same))
        if odd:
            return kind, _blamed(odd, at), f"{told[odd[0]]} where others have {same}"
    return None


def _blamed(odd: tuple[int, ...], at: dict[int, Entry]) -> tuple[int, ...]:
    """Half against half, none is the odd one out: all are named."""
    return odd if 2 * len(odd) < len(at) else tuple(sorted(at))


def _sizes(operation: str, entry: Entry) -> str:
    uneven = any(word in operation for word in _UNEVEN)
    if uneven and operation not in _EVEN:
        return ""
    return entry.inputs


def _types(_: str, entry: Entry) -> str:
    return entry.types


_DETAILS: tuple[tuple[Kind, Callable[[str, Entry], str]], ...] = (
    ("size", _sizes),
    ("type", _types),
)


def _waiting(at: dict[int, Entry], unseen: tuple[int, ...]) -> _Found | None:
    if any(entry.done for entry in at.values()):
        return None
    last = max(at.values(), key=lambda entry: entry.created)
    if not last.waits:
        return None
    return ("alone" if unseen else "stuck"), (), ""


def _common(values: Iterable[str]) -> str:
    counted = Counter(values).most_common(1)
    return counted[0][0] if counted else ""
