"""Call sites over the moments of a recording, reckoned back from what is live at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

from gpudiag.agent.analysis.memory import categories
from gpudiag.agent.analysis.memory.digest import Chart, Series
from gpudiag.agent.analysis.memory.frames import Sites
from gpudiag.agent.analysis.memory.holding import Held
from gpudiag.agent.analysis.memory.walk import Walk

MOST = 300
_CHANGES = 3


def series(walked: Walk, held: Held, sites: Sites, at: Sequence[int]) -> list[Series]:
    """Live bytes and blocks of call sites at the marks `at`, those that changed most first."""
    if len(at) < 2:
        return []
    ends = _ends(held)
    ranked = sorted(
        (site for site, changes in walked.lived.items() if len(changes) >= _CHANGES),
        key=lambda site: _worth(walked.lived[site]),
    )
    freed = _freed(walked)
    found = []
    for site in ranked[:MOST]:
        size, count, category = ends.get(site, (0, 0, ""))
        sizes, counts = _back(walked.lived[site], len(walked.marks), size, count)
        category = category or _category(sites, site)
        bulk, freeing = freed.get(site, (0, ()))
        kept = (tuple(sizes[n] for n in at), tuple(counts[n] for n in at))
        found.append(Series(site, category, *kept, bulk, freeing))
    return found


def chart(walked: Walk, held: Held, sites: Sites) -> Chart:
    """Live bytes by category at every mark."""
    marks = len(walked.marks)
    deltas: dict[str, list[int]] = {}
    for site, changes in walked.lived.items():
        line = deltas.setdefault(_category(sites, site), [0] * (marks + 1))
        for mark, change in changes.items():
            line[mark] += change[0]
    older = deltas.setdefault(categories.UNATTRIBUTED, [0] * (marks + 1))
    for mark, change in walked.gone.items():
        older[mark] += change[0]
    ends = dict.fromkeys(deltas, 0)
    for block in held.blocks:
        born = block.address in held.births
        category = _category(sites, held.site_of(block)) if born else held.category_of(block)
        ends[category] = ends.get(category, 0) + block.size
    values = {}
    for category, end in ends.items():
        line = deltas.get(category, [0] * (marks + 1))
        summed = list(accumulate(line[:marks]))
        values[category] = tuple(max(0, end - summed[-1] + value) for value in summed)
    last = walked.marks[-1] or 1
    return Chart(tuple(mark / last for mark in walked.marks), values)


def _worth(changes: Mapping[int, Sequence[int]]) -> tuple[bool, int]:
    """Sort key: sites that ended with more blocks, then those that moved most bytes."""
    more = sum(change[1] for change in changes.values()) >= _CHANGES
    return not more, -sum(abs(change[0]) for change in changes.values())


def _ends(held: Held) -> dict[int, tuple[int, int, str]]:
    found: dict[int, tuple[int, int, str]] = {}
    for block in held.blocks:
        site = held.site_of(block)
        size, count, category = found.get(site, (0, 0, held.category_of(block)))
        found[site] = size + block.size, count + 1, category
    return found


def _back(
    changes: Mapping[int, Sequence[int]], marks: int, size: int, count: int
) -> tuple[list[int], list[int]]:
    sizes, counts = [0] * marks, [0] * marks
    for mark in range(marks - 1, -1, -1):
        sizes[mark], counts[mark] = max(0, size), max(0, count)
        if mark in changes:
            size -= changes[mark][0]
            count -= changes[mark][1]
    return sizes, counts


def _category(sites: Sites, site: int) -> str:
    return categories.by_site(sites.found[site].hints, 0, framed=bool(site))


def _freed(walked: Walk) -> dict[int, tuple[int, tuple[int, ...]]]:
    """Per site: its most blocks freed between two marks, and the sites that freed so many."""
    found: dict[int, tuple[int, tuple[int, ...]]] = {}
    for (site, _, by), count in walked.freed_by.most_common():
        most, freeing = found.get(site, (count, ()))
        if count * 2 >= most and by not in freeing and len(freeing) < 4:
            freeing = (*freeing, by)
        found[site] = most, freeing
    return found
