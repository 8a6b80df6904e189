"""Any log text to causes: memory messages, kernel lines and programs' own, judged together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpudiag.agent.analysis import kernel_causes, log_training, oom_text
from gpudiag.agent.analysis.causes import Cause, Reading
from gpudiag.agent.analysis.oom_meaning import meanings
from gpudiag.agent.analysis.oom_text import OomText
from gpudiag.agent.analysis.oom_words import size
from gpudiag.probes.catalog import gravity

HOST = "host-memory-pressure"
INTERRUPTED = "training-interrupted"


def explain(text: str) -> Reading:
    """What the text gives away, the gravest and surest first, consequences behind their cause."""
    lines = text.splitlines()
    found = [_of_message(message) for message in oom_text.find(text)]
    found += kernel_causes.causes(kernel_causes.find(lines))
    found += _of_programs(lines, found)
    found = _folded(found)
    found.sort(key=lambda c: (bool(c.consequence_of), -gravity(c.severity), -c.confidence))
    return Reading(len(lines), tuple(found))


def _of_programs(lines: list[str], found: list[Cause]) -> Iterator[Cause]:
    """What programs wrote, without what the memory messages among it have told already."""
    told = {one.line for one in found}
    host = any(one.symptom == HOST for one in found)
    for cause in log_training.causes(log_training.find(lines)):
        if cause.line not in told and not (host and cause.symptom == HOST):
            yield cause


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
    memory = [c for c in found if c.symptom == "startup-oom"]
    told = []
    for one in found:
        first = killed or hardware or memory
        mine = one.symptom in (INTERRUPTED, HOST) if killed else one.symptom == INTERRUPTED
        if first and mine and one is not first[0] and not one.consequence_of:
            one = replace(one, consequence_of=first[0].page)  # noqa: PLW2901
        told.append(one)
    return told
