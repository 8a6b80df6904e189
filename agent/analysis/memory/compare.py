"""Two snapshots side by side, of one run or of two: sites paired by stable id, lines may drift."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from gpudiag.agent.analysis.memory.digest import Device
from gpudiag.agent.analysis.memory.frames import NOWHERE, Site


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A call site in both snapshots; bytes and blocks, `moved` when its line is another one."""

    site: Site
    category: str
    before: int
    after: int
    count_before: int
    count_after: int
    moved: bool

    @property
    def change(self) -> str:
        """appeared, gone, grew, shrank or stable."""
        if self.before == self.after:
            return "stable"
        if not self.before:
            return "appeared"
        if not self.after:
            return "gone"
        return "grew" if self.after > self.before else "shrank"


_Tally = tuple[Site, str, int, int]


def compare(before: Device, after: Device) -> list[Change]:
    """Every call site of either device, the largest change first."""
    old, new = _by_id(before), _by_id(after)
    found = []
    for key in old.keys() | new.keys():
        found += _paired(old.get(key, {}), new.get(key, {}))
    return sorted(found, key=lambda change: -abs(change.after - change.before))


def _by_id(device: Device) -> dict[str, dict[int, _Tally]]:
    sums: dict[str, dict[int, _Tally]] = defaultdict(dict)
    for hold in device.holds:
        site = device.sites[hold.site]
        known = sums[site.id].get(site.line)
        size, count = (known[2], known[3]) if known else (0, 0)
        sums[site.id][site.line] = (site, hold.category, size + hold.bytes, count + hold.count)
    return sums


def _paired(old: dict[int, _Tally], new: dict[int, _Tally]) -> list[Change]:
    """Equal lines first; what is left of one function's lines pairs in their order."""
    same = old.keys() & new.keys()
    pairs: list[tuple[_Tally | None, _Tally | None]] = [(old[n], new[n]) for n in same]
    left = [old[n] for n in sorted(old.keys() - same)]
    right = [new[n] for n in sorted(new.keys() - same)]
    shared = min(len(left), len(right))
    pairs += zip(left[:shared], right[:shared], strict=True)
    pairs += [(one, None) for one in left[shared:]]
    pairs += [(None, one) for one in right[shared:]]
    return [_change(a, b) for a, b in pairs]


def _change(a: _Tally | None, b: _Tally | None) -> Change:
    empty = (NOWHERE, "", 0, 0)
    site, category, *_ = b or a or empty
    return Change(
        site=site,
        category=category,
        before=(a or empty)[2],
        after=(b or empty)[2],
        count_before=(a or empty)[3],
        count_after=(b or empty)[3],
        moved=bool(a and b and a[0].line != b[0].line),
    )
