"""What can be told of a run from its modules and optimizers: precision, sharding, degrees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

DEGREES = {"dp_replicate": "dp", "dp_shard": "fsdp", "data": "dp", "model": "tp"}
PRECISIONS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
KNOWN = frozenset({"dp", "tp", "pp", "ep", "cp", "fsdp"})


def config(
    modules: Iterable[Any], optimizers: Iterable[Any], autocast: str | None
) -> dict[str, str]:
    """precision, recompute, optimizer, sharding; a key that cannot be told is left out.

    `autocast` is the dtype of autocast during backward, None where it was off.
    """
    everything = list(_inside(modules))
    names = sorted({type(optimizer).__name__ for optimizer in optimizers})
    found = {"sharding": sharding(everything)}
    if names:
        found["optimizer"] = "+".join(names)
    if precision := autocast or _parameters_precision(everything):
        found["precision"] = PRECISIONS.get(precision, precision)
    if (recompute := _recompute(everything)) is not None:
        found["recompute"] = recompute
    return found


def sharding(modules: Iterable[Any]) -> str:
    """`fsdp` where parameters are sharded by FSDP (1 or 2), else `none`."""
    for module in modules:
        if {c.__name__ for c in type(module).__mro__} & {"FSDPModule", "FullyShardedDataParallel"}:
            return "fsdp"
    return "none"


def degrees(modules: Iterable[Any]) -> dict[str, int]:
    """Sizes of the named dimensions of the device meshes that parameters lie on."""
    found: dict[str, int] = {}
    for module in modules:
        for parameter in module.parameters():
            found.update(_mesh(getattr(parameter, "device_mesh", None)))
    return found


def _mesh(mesh: Any) -> Mapping[str, int]:
    names = getattr(mesh, "mesh_dim_names", None) or ()
    sizes = {DEGREES.get(name, name): mesh.size(number) for number, name in enumerate(names)}
    return {name: size for name, size in sizes.items() if name in KNOWN}


def _recompute(modules: Iterable[Any]) -> str | None:
    """`full` where a module says that it recomputes; None where nothing tells."""
    told = False
    for module in modules:
        if type(module).__name__ == "CheckpointWrapper":
            return "full"
        flag = vars(module).get("gradient_checkpointing")
        if flag is True:
            return "full"
        told = told or flag is False
    return "off" if told else None


def _parameters_precision(modules: Iterable[Any]) -> str | None:
    """The dtype of most parameter elements."""
    counts: Counter[str] = Counter()
    for module in modules:
        for parameter in vars(module).get("_parameters", {}).values():
            if parameter is not None:
                counts[str(parameter.dtype).removeprefix("torch.")] += parameter.numel()
    return counts.most_common(1)[0][0] if counts else None


def _inside(modules: Iterable[Any]) -> Iterator[Any]:
    for module in modules:
        yield from module.modules()
