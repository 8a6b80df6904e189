"""Why a rank ran out of memory as it started: the first cause that its shares bear out."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from gpudiag.agent.analysis.oom_words import GIB, OTHERS, STARTUP, UNDETERMINED, size
from gpudiag.agent.rules._blame import Blame
from gpudiag.agent.rules._oom_shares import BATCH, LENGTH, MODEL, OUTSIDE, Shares
from gpudiag.agent.rules.contract import Evidence, Limits

HALF_WIDTH = frozenset({"bf16", "fp16", "fp8", "bfloat16", "float16"})
PARTITIONED = frozenset({"zero1", "zero2", "zero3", "fsdp"})
WHOLE = 0.9


def blame(seen: Shares, limits: Limits) -> Blame | None:
    """The cause, in the order of what makes the others moot; None where it stays open."""
    return next((found for found in _examined(seen, limits) if found), None)


def _examined(seen: Shares, limits: Limits) -> Iterator[Blame | None]:
    yield _others(seen)
    yield _fragmented(seen, limits)
    yield _unsharded(seen)
    yield _wide(seen)
    yield _unpartitioned(seen, limits)
    yield _optimizer(seen)
    yield _long(seen)
    yield _batch(seen)


def _others(seen: Shares) -> Blame | None:
    said = seen.meanings[0] if seen.meanings else None
    if said and said.cause == OTHERS:
        return Blame("memory-held-by-others", said.confidence, said.why)
    asked = float(seen.figures.requested or 0)
    if seen.others >= max(asked, GIB):
        words = f"other processes hold {size(seen.others)} of its GPU"
        return Blame("memory-held-by-others", 0.85, words)
    # The context, modules and communicators of one process take up to about 4 GiB.
    if seen.outside is not None and seen.outside >= max(asked, 4.0 * GIB):
        evidence = [Evidence(OUTSIDE, seen.outside, "bytes", "< 4 GiB", _labels(seen))]
        words = f"{size(seen.outside)} of its GPU are taken outside torch"
        return Blame("memory-held-by-others", 0.75, words, evidence)
    return None


def _fragmented(seen: Shares, limits: Limits) -> Blame | None:
    asked = seen.figures.requested
    idle = seen.figures.unallocated
    if idle is None and seen.reserved is not None and seen.allocated is not None:
        idle = int(seen.reserved - seen.allocated)
    if not asked or idle is None or idle < asked:
        return None
    if seen.largest is not None and seen.largest >= asked:
        return None
    if idle < limits["idle"] * (seen.reserved or (seen.allocated or 0.0) + idle):
        return None
    words = f"{size(idle)} lie reserved and idle, and no block of them has {size(asked)}"
    return Blame("fragmentation", 0.85, words)


def _unsharded(seen: Shares) -> Blame | None:
    names = ["tp", "pp", "ep", "fsdp"] + (
        ["zero"] if seen.config.get("sharding") == "zero3" else []
    )
    degree = prod(seen.degrees.get(name, 1) for name in names)
    if degree == 1 and seen.config.get("sharding") in ("fsdp", "zero3"):
        degree = seen.degrees.get("dp", seen.job.world or 1)
    local, whole = seen.local("parameter"), seen.model.get(("parameter", "global"), 0.0)
    if not whole and seen.budget.get("parameter"):
        whole = degree * seen.budget["parameter"]
    if degree < 2 or not whole or local < WHOLE * whole:
        return None
    expected = f"about {whole / degree:.3g}"
    evidence = [Evidence(MODEL, local, "bytes", expected, {**_labels(seen), "kind": "parameter"})]
    words = f"it holds {size(local)} of parameters, the whole model, though split by {degree}"
    return Blame("sharding-not-effective", 0.92, words, evidence)


def _wide(seen: Shares) -> Blame | None:
    local = seen.local("parameter")
    asked = seen.config.get("precision", "") in HALF_WIDTH
    assumed = seen.budget.get("parameter", 0.0)
    twice = bool(assumed) and 1.7 * assumed <= local <= 2.4 * assumed
    if not local or seen.wide < 0.5 * local or not (asked or twice):
        return None
    what = seen.config.get("precision", "two bytes a parameter")
    evidence = [Evidence(MODEL, seen.wide, "bytes of float32", what, _labels(seen))]
    words = f"{size(seen.wide)} of its {size(local)} of parameters are float32, not {what}"
    return Blame("mixed-precision-off", 0.88, words, evidence)


def _unpartitioned(seen: Shares, limits: Limits) -> Blame | None:
    sharding, cause = seen.config.get("sharding", ""), "recompute-or-partition-misconfigured"
    own, whole = seen.local("optimizer"), seen.model.get(("optimizer", "global"), 0.0)
    many = seen.degrees.get("dp", 1) * seen.degrees.get("fsdp", 1) * seen.degrees.get("zero", 1)
    if sharding in PARTITIONED and many > 1 and whole and own >= WHOLE * whole:
        evidence = [Evidence(MODEL, own, "bytes", f"{whole / many:.3g}", _labels(seen))]
        words = f"it holds all {size(own)} of optimizer state though {sharding} is on"
        return Blame(cause, 0.9, words, evidence)
    planned, active = seen.budget.get("activation"), seen.activations
    again = seen.config.get("recompute", "") in ("selective", "full")
    if again and planned and active and active >= limits["activations"] * planned:
        words = f"activations take {size(active)} where recomputation lets {size(planned)} expect"
        return Blame(cause, 0.8, words)
    return None


def _optimizer(seen: Shares) -> Blame | None:
    state = max(seen.local("optimizer"), seen.budget.get("optimizer", 0.0))
    weights = seen.local("parameter") or seen.budget.get("parameter", 0.0)
    fixed = seen.local("parameter") + seen.local("gradient") + seen.local("optimizer")
    active = max((seen.allocated or fixed) - fixed, 0.0) if fixed else seen.activations or 0.0
    if not weights or state <= 2.0 * weights or state < active:
        return None
    evidence = [Evidence(MODEL, state, "bytes", f"{weights:.3g} of parameters", _labels(seen))]
    words = f"the optimizer's state takes {size(state)}, {state / weights:.1f} times the parameters"
    return Blame("optimizer-state-heavy", 0.85, words, evidence)


def _long(seen: Shares) -> Blame | None:
    said = seen.meanings[0] if seen.meanings else None
    if said and (said.symptom, said.cause) == (STARTUP, "sequence-too-long"):
        return Blame("sequence-too-long", said.confidence, said.why)
    if seen.length and seen.limit and seen.length > 1.02 * seen.limit:
        expected = f"at most {seen.limit:.0f}"
        evidence = [Evidence(LENGTH, seen.length, "tokens", expected, _labels(seen))]
        words = f"a sequence of {seen.length:.0f} tokens came, {seen.limit:.0f} were configured"
        return Blame("sequence-too-long", 0.9, words, evidence)
    alone = seen.batch is not None and seen.batch <= 1.0
    if alone and seen.length and _mostly_activations(seen):
        words = f"activations of one sequence of {seen.length:.0f} tokens take the most"
        evidence = [Evidence(LENGTH, seen.length, "tokens", "", _labels(seen))]
        return Blame("sequence-too-long", 0.7, words, evidence)
    return None


def _mostly_activations(seen: Shares) -> bool:
    active = seen.activations
    kinds = ("parameter", "gradient", "optimizer")
    most = max(seen.local(kind) or seen.budget.get(kind, 0.0) for kind in kinds)
    return active is not None and most > 0.0 and active > most


def _batch(seen: Shares) -> Blame | None:
    if not seen.batch or seen.batch <= 1.0 or not _mostly_activations(seen):
        return None
    active, whole = seen.activations or 0.0, seen.capacity
    fits = ""
    if whole and seen.allocated:
        needed = seen.allocated - active / 2.0 + float(seen.figures.requested or 0) / 2.0
        if needed > whole:
            return None
        fits = f"; half the batch would need about {size(needed)} of {size(whole)}"
    evidence = [Evidence(BATCH, seen.batch, "samples", "fewer", _labels(seen))]
    words = f"activations of {seen.batch:.0f} samples take {size(active)}, the largest share{fits}"
    return Blame("batch-too-large", 0.85 if fits else 0.7, words, evidence)


def still_open(seen: Shares) -> tuple[str, tuple[str, ...]]:
    """What can be said where no cause bears out, and what would settle it."""
    said = next((m for m in seen.meanings if m.cause == UNDETERMINED), None)
    wanted = [] if seen.model else [MODEL]
    wanted += [] if seen.batch else [BATCH]
    return (said.why if said else "who holds the memory is not told"), (
        *wanted,
        *(said.missing if said else ("the text of the error",)),
    )


def _labels(seen: Shares) -> dict[str, str]:
    return {"job": seen.job.name, **({"rank": seen.rank} if seen.rank else {})}
