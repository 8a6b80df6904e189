"""Known log lines as causes: who failed first, and what only follows from that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpudiag.agent.analysis.causes import Cause
from gpudiag.agent.analysis.log_words import INTERRUPTED, STARTUP, WORDS
from gpudiag.probes.logs import elastic
from gpudiag.probes.logs.kinds import needles
from gpudiag.probes.logs.lines import LogFact, parse

MAX_EVIDENCE = 3
_EXCERPT = 300
ECHOES = frozenset({"collective_timeout", "peer_closed", "join_timeout", "network_error"})
"""Kinds by which a rank complains of somebody else."""
_OWN = frozenset(
    {"error", "crash", "loader_death", "shm_full", "data_error", "device_error", "exit"}
)
_ASKED_FOR = frozenset({-15, -2, -1})
_ABORT = -6
_SIGNALS = {-4: "SIGILL", -6: "SIGABRT", -7: "SIGBUS", -9: "SIGKILL", -11: "SIGSEGV"}


class Seen(NamedTuple):
    """A known line: its number (from 1) and what it says."""

    line: int
    fact: LogFact


def find(lines: Sequence[str]) -> list[Seen]:
    """The known lines of a text, those of torchrun's closing block as its failures."""
    block, found = elastic.Block(), []
    maybe = needles()
    for number, line in enumerate(lines, 1):
        taken, facts = block.take(line)
        found += [Seen(number, fact) for fact in facts]
        if taken or not maybe.search(line.encode("utf-8", "replace")):
            continue
        fact = parse(line)
        if fact is not None:
            found.append(Seen(number, fact))
    return found + [Seen(len(lines), fact) for fact in block.finish()]


def causes(seen: Sequence[Seen]) -> Iterator[Cause]:
    """Each kind once, the collectives' timeouts and torchrun's failures judged as a whole."""
    by_kind: defaultdict[str, list[Seen]] = defaultdict(list)
    for one in seen:
        by_kind[one.fact.kind].append(one)
    first = _first(seen)
    told = {error for one in by_kind["exit"] if (error := one.fact.fields.get("error"))}
    # torchrun repeats what the rank itself has written: it is one failure.
    by_kind["error"] = [one for one in by_kind["error"] if one.fact.text not in told]
    if by_kind["exit"]:
        yield from _exits(by_kind.pop("exit"), by_kind)
    first = first or _earliest(by_kind["network_error"])
    if by_kind["collective_timeout"]:
        yield _timeouts(by_kind["collective_timeout"], first)
        first = first or by_kind["collective_timeout"][0]
    for kind, lines in by_kind.items():
        if lines and kind in WORDS:
            yield _of_kind(kind, lines, first)


def _earliest(told: list[Seen]) -> Seen | None:
    return told[0] if told else None


def _first(seen: Iterable[Seen]) -> Seen | None:
    """The first line by which a rank speaks of a failure of its own, not of its peers."""
    complained: set[str] = set()
    for one in seen:
        rank = one.fact.fields.get("rank", "")
        if one.fact.kind in ECHOES:
            complained.add(rank)
        elif one.fact.kind in _OWN and rank not in complained and not _asked_for(one.fact):
            return one
    return None


def _asked_for(fact: LogFact) -> bool:
    return fact.kind == "exit" and (fact.number("code") or 0) in (*_ASKED_FOR, _ABORT, 0)


def _exits(told: list[Seen], others: dict[str, list[Seen]]) -> Iterator[Cause]:
    """torchrun's own verdict, the failure it observed first; those it ended itself follow."""
    failed = [one for one in told if (one.fact.number("code") or 0) not in _ASKED_FOR]
    roots = [one for one in failed if one.fact.fields.get("first")] or failed[:1]
    if not roots:
        return
    root = roots[0].fact
    inner = parse(root.fields.get("error", ""))
    code = root.number("code")
    yield Cause(
        cause=_cause_of(code, others),
        confidence=0.85 if root.fields.get("first") else 0.7,
        severity="critical",
        summary=f"{_who(root) or 'A process'} failed first ({_code(code)}): {_error(root)}.",
        line=roots[0].line,
        symptom=INTERRUPTED,
        who=_who(root),
        times=len({one.fact.fields.get("rank") or one.fact.fields.get("pid") for one in roots}),
        evidence=(root.text[:_EXCERPT],),
        rivals=tuple(_siblings(told, root)),
        missing=_unseen(code, inner),
        todo="Read that rank's log up to its end; the others' complaints follow from it.",
        consequence_of=_origin(inner, others),
    )


def _cause_of(code: int | None, others: dict[str, list[Seen]]) -> str:
    killed = code == -9 and (others["host_memory"] or others["loader_death"])
    return "host-out-of-memory" if killed else "process-crash"


def _origin(inner: LogFact | None, others: dict[str, list[Seen]]) -> str:
    """What the first failure itself complained of: then it is not where it began."""
    if inner is None or inner.kind not in ECHOES:
        return ""
    timed_out = inner.kind == "collective_timeout" or others["collective_timeout"]
    return f"{INTERRUPTED}#{'hung-collective' if timed_out else 'undetermined'}"


def _unseen(code: int | None, inner: LogFact | None) -> tuple[str, ...]:
    if code == -9:
        return ("who sent SIGKILL: the kernel's log tells an out-of-memory kill",)
    if inner is not None and inner.kind in ECHOES:
        return ("the log of the rank that it complains of, on another node perhaps",)
    return ()


def _siblings(told: list[Seen], root: LogFact) -> Iterator[tuple[str, str]]:
    ended = {_who(s.fact) for s in told if s.fact.number("code") in _ASKED_FOR} - {_who(root), ""}
    if ended:
        names = ", ".join(sorted(ended)[:4])
        yield "process-crash", f"{names}: ended by torchrun after the first failure"


def _who(fact: LogFact) -> str:
    rank, pid = fact.fields.get("rank"), fact.fields.get("pid")
    return f"rank {rank}" if rank else f"process {pid}" if pid else ""


def _code(code: int | None) -> str:
    if code is None:
        return "no exit code told"
    return _SIGNALS.get(code, f"signal {-code}") if code < 0 else f"exit code {code}"


def _error(fact: LogFact) -> str:
    return fact.fields.get("error", "")[:200].rstrip(".") or "its own words are in its log"


def _timeouts(told: list[Seen], first: Seen | None) -> Cause:
    """Whom a collective waited for, by who complained and how far each had come."""
    facts = [one.fact for one in told]
    words, sure, who = _behind(facts)
    began = min(f.number("sequence") or 1 for f in facts)
    startup = began <= 1 and any(f.number("sequence") is not None for f in facts)
    follows = _page(first) if first and first.line < told[0].line else ""
    return Cause(
        cause="comm-timeouts-in-log" if startup else "hung-collective",
        confidence=sure,
        severity="critical",
        summary=f"A collective timed out: {words}.",
        line=told[0].line,
        symptom=STARTUP if startup else INTERRUPTED,
        who=who,
        times=len(told),
        evidence=tuple(fact.text[:_EXCERPT] for fact in facts[:MAX_EVIDENCE]),
        missing=() if sure >= 0.8 else ("the log of every rank", "flight-recorder dumps"),
        todo="Run `gpudiag explain` over the flight recorder's dumps of all ranks, if there are.",
        consequence_of=follows,
    )


def _behind(facts: Sequence[LogFact]) -> tuple[str, float, str]:
    accused = [f.fields["culprit"] for f in facts if f.fields.get("culprit")]
    if accused:
        return f"a barrier waited for rank {accused[0]} in vain", 0.9, f"rank {accused[0]}"
    numbers = {
        f.fields["rank"]: n
        for f in facts
        if f.fields.get("rank") and (n := f.number("sequence")) is not None
    }
    operation = next((o for f in facts if (o := f.fields.get("operation"))), "a collective")
    operations = {f.fields["operation"] for f in facts if f.fields.get("operation")}
    most = max(numbers.values(), default=None)
    late = sorted((n, rank) for rank, n in numbers.items() if most is not None and n < most)
    if late:
        rank = late[0][1]
        return f"rank {rank} stands at {late[0][0]}, the others at {most}", 0.85, f"rank {rank}"
    if len(operations) > 1 and most is not None:
        return f"ranks entered different ones at {most}: {', '.join(sorted(operations))}", 0.8, ""
    gaps = _gaps(numbers)
    if gaps:
        named = f"rank {gaps[0]}"
        return f"every rank told of {operation} {most} but {named}", 0.7, named
    which = operation if most is None else f"{operation} {most}"
    return f"{which} did not complete{_small(facts)}", 0.5, ""


def _gaps(numbers: dict[str, int]) -> list[int]:
    """Ranks within the span of those that complained which did not: one or few."""
    ranks = sorted(int(rank) for rank in numbers)
    if len(ranks) < 2:
        return []
    missing = sorted(set(range(ranks[-1] + 1)) - set(ranks))
    return missing if len(missing) <= max(1, len(ranks) // 4) else []


def _small(facts: Sequence[LogFact]) -> str:
    tiny = any(f.number("elements") == 1 for f in facts)
    return "; of one element, so a barrier or a flag and no gradients" if tiny else ""


def _of_kind(kind: str, told: list[Seen], first: Seen | None) -> Cause:
    said, facts = WORDS[kind], [one.fact for one in told]
    lead = first if first in told else None
    fact = lead.fact if lead else facts[0]
    cause = Cause(
        cause=said.cause,
        confidence=said.confidence,
        severity=said.severity,
        summary=f"{said.meaning}: {fact.text[:200].rstrip('.')}.",
        line=(lead or told[0]).line,
        symptom=said.symptom,
        who=_who(fact),
        times=len(told),
        evidence=tuple(dict.fromkeys(f.text[:_EXCERPT] for f in facts))[:MAX_EVIDENCE],
        missing=tuple(filter(None, (said.missing,))),
        todo=said.todo,
    )
    follows = kind == "peer_closed" or (kind in _OWN and cause.symptom == INTERRUPTED)
    if follows and first is not None and lead is None:
        return replace(cause, consequence_of=_page(first))
    return cause


def _page(first: Seen) -> str:
    said = WORDS.get(first.fact.kind)
    cause = "hung-collective" if first.fact.kind == "collective_timeout" else "process-crash"
    return f"{said.symptom}#{said.cause}" if said else f"{INTERRUPTED}#{cause}"
