"""The report as JSON. The schema, version 1 (bytes, seconds; absent figures are null):

{version, verdict, parts: [part, ...], diff?}
verdict  {kind, confidence, summary, evidence, next, missing, severity, symptom, cause,
          rivals: [{cause, why_not}], runbook}; kind is leak, warm-up, sawtooth, caching,
          fragmentation, outside torch, host side, out of memory, steady or cannot tell
part     {rank, device, files, verdict, growth: [growth], sums, outlook, requests, notes,
          unit, snapshot}; parts come worst first and the first one's verdict is the report's
growth   {site, category, change, shape, leaks, confidence, first, last, count_first,
          count_last, by, rate, low, high, per_hour, kept, new, gone, series}; rate is bytes
          per unit (step, snapshot or stretch), low and high its 95 % band; change is
          appeared, grew, shrank, gone, stable or churning
site     {id, file, line, function, via, chain}; id is stable across runs and moved lines
sums     {live, reserved, named, bare, rest, cache, outside, host}: growth told apart
outlook  {headroom, unit, after, soonest, latest, seconds}: when memory ends
request  {kind, size, answer, why, cause, missed}
snapshot {live, pending, reserved, peak, framed, entries, seconds, composition:
          {category: {bytes, inferred, at_peak}}, sites: [{site, category, bytes, asked, count,
          born}], pools, pins, moments: [{step, time_us, live, reserved}]}
diff     [{site, category, before, after, count_before, count_after, change, moved}]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gpudiag.agent.analysis.memory.compare import Change
from gpudiag.agent.analysis.memory.digest import Device, Live
from gpudiag.agent.analysis.memory.frames import Site
from gpudiag.agent.analysis.memory.growth import Growth
from gpudiag.agent.analysis.memory.report import Part, Report
from gpudiag.agent.analysis.memory.ruling import Verdict

VERSION = 1


def plain(report: Report, top: int, diff: Sequence[Change] | None = None) -> dict[str, Any]:
    """The report as dicts and lists; `top` call sites of each kind."""
    found: dict[str, Any] = {
        "version": VERSION,
        "verdict": _verdict(report.verdict),
        "parts": [_part(part, top) for part in report.parts],
    }
    if diff is not None:
        found["diff"] = [
            {**_struct(c), "site": _site(c.site), "change": c.change} for c in diff[:top]
        ]
    return found


def _struct(value: Any) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.to_builtins(value)
    return made


def _verdict(said: Verdict) -> dict[str, Any]:
    return {**_struct(said), "runbook": said.runbook}


def _site(site: Site) -> dict[str, Any]:
    made = _struct(site)
    del made["hints"]
    return made


def _growth(growth: Growth) -> dict[str, Any]:
    return {**_struct(growth), "site": _site(growth.site)}


def _part(part: Part, top: int) -> dict[str, Any]:
    changed = [g for g in part.growth if g.change != "stable"]
    return {
        "rank": part.rank,
        "device": part.device.device,
        "files": list(part.files),
        "verdict": _verdict(part.verdict),
        "growth": [_growth(growth) for growth in changed[:top]],
        "sums": part.sums and _struct(part.sums),
        "outlook": part.outlook and _struct(part.outlook),
        "requests": [_struct(request) for request in part.requests],
        "notes": list(part.notes),
        "unit": part.points and part.points.unit,
        "snapshot": _snapshot(part.device, top),
    }


def _snapshot(device: Device, top: int) -> dict[str, Any]:
    parts: dict[str, dict[str, int]] = {}
    for hold in device.holds:
        tally = parts.setdefault(hold.category, {"bytes": 0, "inferred": 0, "at_peak": 0})
        tally["bytes"] += hold.bytes
        tally["inferred"] += hold.bytes * hold.inferred
    for hold in device.at_peak:
        tally = parts.setdefault(hold.category, {"bytes": 0, "inferred": 0, "at_peak": 0})
        tally["at_peak"] += hold.bytes
    keys = ("live", "pending", "reserved", "peak", "framed", "entries", "seconds")
    return {
        **{key: getattr(device, key) for key in keys},
        "composition": parts,
        "sites": [_hold(device, hold) for hold in device.holds[:top]],
        "pools": [_struct(pool) for pool in device.pools],
        "pins": [_pin(device, pin) for pin in device.pins[:top]],
        "moments": [
            {"step": m.step, "time_us": m.time_us, "live": m.live, "reserved": m.reserved}
            for m in device.moments
        ],
    }


def _hold(device: Device, hold: Live) -> dict[str, Any]:
    return {
        "site": _site(device.sites[hold.site]),
        "category": hold.category,
        "bytes": hold.bytes,
        "asked": hold.asked,
        "count": hold.count,
        "born": list(hold.born),
    }


def _pin(device: Device, pin: Any) -> dict[str, Any]:
    by = [{"site": device.sites[site].place, "bytes": size} for site, size in pin.by]
    return {"address": pin.address, "size": pin.size, "free": pin.free, "by": by}
