"""Any log text to causes: out-of-memory messages and kernel lines, judged together."""

from __future__ import annotations

from dataclasses import replace

from gpudiag.agent.analysis import kernel_causes, oom_text
from gpudiag.agent.analysis.causes import Cause, Reading
from gpudiag.agent.analysis.oom_meaning import meanings
from gpudiag.agent.analysis.oom_text import OomText
from gpudiag.agent.analysis.oom_words import size

HOST = "host-memory-pressure"
_RANKS = ("critical", "warning", "info")


def explain(text: str) -> Reading:
    """What the text gives away, the gravest and surest first, consequences behind their cause."""
    lines = text.splitlines()
    found = [_of_message(message) for message in oom_text.find(text)]
    found += kernel_causes.causes(kernel_causes.find(lines))
    found = _folded(found)
    found.sort(key=lambda c: (bool(c.consequence_of), _RANKS.index(c.severity), -c.confidence))
    return Reading(len(lines), tuple(found))


def _of_message(message: OomText) -> Cause:
    first, *rest = meanings(message)
    seen = message.figures
    facts = [message.excerpt]
    if seen.requested and seen.free is not None:
        facts.append(f"asked for {size(seen.requested)}, free {size(seen.free)}")
    if seen.allocated is not None:
        facts.append(f"allocated {size(seen.allocated)}, reserved {size(seen.reserved)}")
    if seen.unknown:
        facts.append(f"the driver did not tell: {', '.join(seen.unknown)}")
    ranks = f"rank {', '.join(message.ranks)}" if message.ranks else ""
    gpu = "" if seen.device is None else f"GPU {seen.device}"
    return Cause(
        cause=first.cause,
        confidence=first.confidence,
        severity="critical",
        summary=f"{'Host' if message.kind == 'host' else 'GPU'} memory ran out: {first.why}.",
        line=message.line,
        symptom=first.symptom,
        who=", ".join(filter(None, (ranks, gpu))),
        times=message.times,
        evidence=tuple(facts),
        rivals=tuple((one.cause, f"less likely ({one.confidence:.0%}): {one.why}") for one in rest),
        missing=first.missing,
        todo=first.todo,
    )


def _folded(found: list[Cause]) -> list[Cause]:
    """What another cause of the same text explains says so, and comes last."""
    killed = [c for c in found if c.symptom == HOST and "killed" in c.summary]
    hardware = [c for c in found if c.symptom == "gpu-xid" and c.severity == "critical"]
    told = []
    for one in found:
        if killed and one.symptom == HOST and one is not killed[0]:
            one = replace(one, consequence_of=killed[0].page)  # noqa: PLW2901
        elif hardware and one.symptom == "training-interrupted":
            one = replace(one, consequence_of=hardware[0].page)  # noqa: PLW2901
        told.append(one)
    return told
