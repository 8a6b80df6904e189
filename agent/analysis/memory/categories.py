"""What memory is for, told from its call site; where nothing tells, from the sizes of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpudiag.agent.analysis.memory.frames import Hint

PARAMETERS = "parameters"
GRADIENTS = "gradients"
OPTIMIZER = "optimizer state"
ACTIVATIONS = "activations"
WORKSPACE = "workspace"
COMM = "communication"
CACHE = "KV cache"
OTHER = "other"
UNATTRIBUTED = "unattributed"

ALL = (
    PARAMETERS, GRADIENTS, OPTIMIZER, ACTIVATIONS, WORKSPACE, COMM, CACHE, OTHER, UNATTRIBUTED,
)  # fmt: skip

CUBLAS_WORKSPACE = 8_519_680
"""Bytes of cuBLAS's default workspace per handle and stream (pytorch issue 95668)."""

# torch.profiler classifies by itself; its words are torch/profiler/_memory_profiler.py's.
_PROFILED = {
    "parameter": PARAMETERS,
    "gradient": GRADIENTS,
    "optimizer_state": OPTIMIZER,
    "activation": ACTIVATIONS,
    "autograd_detail": ACTIVATIONS,
    "input": OTHER,
    "temporary": WORKSPACE,
}
_BY_HINT = (
    (Hint.WORKSPACE, WORKSPACE),
    (Hint.COMM, COMM),
    (Hint.CACHE, CACHE),
    (Hint.OPTIMIZER, OPTIMIZER),
    (Hint.BACKWARD, GRADIENTS),
    (Hint.FORWARD, ACTIVATIONS),
    (Hint.SETUP, PARAMETERS),
)


def by_site(hints: int, size: int, *, framed: bool) -> str:
    """The category of a block of `size` bytes from the hints of its stack."""
    if size == CUBLAS_WORKSPACE:
        return WORKSPACE
    if not framed:
        return UNATTRIBUTED
    return next((category for hint, category in _BY_HINT if hints & hint), OTHER)


def by_profiler(word: object) -> str | None:
    """The category that torch.profiler wrote beside the block; None where it did not know."""
    return _PROFILED.get(word) if isinstance(word, str) else None


def by_size(bare: Counter[int], known: Iterable[tuple[str, int, int]]) -> dict[int, list[str]]:
    """For each size of blocks without frames, categories in the order in which to give them out.

    Gradients and optimizer states have their parameter's size: `known` are (category, size,
    count) of blocks with frames. Where states are known, bare blocks of their size are the
    parameters; where only gradients are, three bare ones for each are a parameter and Adam's two.
    """
    counts: dict[int, Counter[str]] = {}
    for category, size, count in known:
        counts.setdefault(size, Counter())[category] += count
    found: dict[int, list[str]] = {}
    for size, number in bare.items():
        seen = counts.get(size, Counter())
        weights = seen[GRADIENTS]
        if seen[OPTIMIZER]:
            found[size] = [PARAMETERS] * min(number, max(weights, seen[OPTIMIZER]))
        elif weights:
            states = 2 * weights if number >= 3 * weights else 0
            found[size] = [PARAMETERS] * min(weights, number) + [OPTIMIZER] * states
    return found
