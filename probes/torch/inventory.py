"""Bytes of parameters, gradients and optimizer state, on this rank and in the whole model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from gpudiag.probes.torch.meter import Value

Totals = dict[tuple[str, str, str], int]
"""Bytes by kind, dtype and scope (local, global)."""


def inventory(modules: Iterable[Any], optimizers: Iterable[Any]) -> Totals:
    """What the model takes; each tensor once, however often it is referred to.

    Parameters are those of the modules and of the optimizers' groups. What is not a DTensor
    counts alike in both scopes: FSDP1's flat parameters show the local part alone.
    """
    totals: Totals = defaultdict(int)
    for kind, tensor in tensors(modules, optimizers):
        _add(totals, kind, tensor)
    return dict(totals)


def tensors(modules: Iterable[Any], optimizers: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Each tensor of the model with its kind: parameter, gradient, optimizer."""
    optimizers = list(optimizers)
    parameters = {id(p): p for p in _parameters(modules, optimizers)}
    for parameter in parameters.values():
        yield "parameter", parameter
        if parameter.grad is not None:
            yield "gradient", parameter.grad
    for tensor in _state(optimizers):
        yield "optimizer", tensor


def values(totals: Totals) -> list[Value]:
    """The totals as series."""
    return [
        ("gpudiag_model_bytes", {"kind": kind, "dtype": dtype, "scope": scope}, float(number))
        for (kind, dtype, scope), number in sorted(totals.items())
    ]


def _parameters(modules: Iterable[Any], optimizers: Iterable[Any]) -> Iterator[Any]:
    for module in modules:
        yield from module.parameters()
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            yield from group["params"]


def _state(optimizers: Iterable[Any]) -> Iterator[Any]:
    for optimizer in optimizers:
        for state in list(optimizer.state.values()):
            for value in list(state.values()) if isinstance(state, dict) else ():
                if hasattr(value, "untyped_storage"):
                    yield value


def _add(totals: Totals, kind: str, tensor: Any) -> None:
    dtype = str(tensor.dtype).removeprefix("torch.")
    local = tensor.detach().to_local() if hasattr(tensor, "to_local") else tensor
    totals[kind, dtype, "local"] += local.numel() * local.element_size()
    totals[kind, dtype, "global"] += tensor.numel() * tensor.element_size()
