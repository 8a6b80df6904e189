"""What a closer look at a growing process found: the call site, and who holds its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpudiag.agent.rules._memory_causes import Why
from gpudiag.agent.rules.contract import UNDETERMINED, Evidence, Rival, Subject
from gpudiag.agent.window import Window

CAPTURED = "memory_capture"
SITE = "gpudiag_leak_site_bytes_per_step"
DAY = 86400.0

SURE = 0.8
"""From this confidence on the capture's cause stands over the trend's: it names a line."""


def refined(window: Window, who: Subject, said: Why) -> Why:
    """`said` with what the newest capture of this process in a day tells; unchanged without one."""
    place = dict(who)
    for event in reversed(window.events(DAY, "agent", CAPTURED)):
        if all(event.fields.get(key) == place.get(key) for key in ("job", "rank")):
            break
    else:
        return said
    site = event.fields.get("site", "")
    if not site:
        return replace(said, missing=(*said.missing, event.line))
    grows = _number(event.fields, "per_step")
    rate = Evidence(SITE, grows, "bytes per step", "none", {"site": site})
    looked = Evidence(CAPTURED, event.line, labels=place)
    said = replace(
        said,
        why=f"{said.why}; {event.line}",
        evidence=(rate, looked, *said.evidence),
        corroborated=True,
    )
    cause, confidence = event.fields.get("cause", ""), _number(event.fields, "confidence")
    if not cause or confidence < SURE or cause == said.cause:
        return said
    others = dict.fromkeys((said.cause, *(rival.cause for rival in said.rivals)))
    why = "a closer look names the line and who holds its tensors"
    rivals = tuple(Rival(other, why) for other in others if other not in (cause, UNDETERMINED))
    return replace(said, cause=cause, confidence=confidence, rivals=rivals, missing=())


def _number(fields: Mapping[str, str], key: str) -> float:
    try:
        return float(fields[key])
    except (KeyError, ValueError):
        return 0.0
