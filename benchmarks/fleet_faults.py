"""Which faults a made-up fleet has, where and when: the truth that a diagnosis is held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

GPUS = 8
NODES_A_RACK = 8
RACKS_A_ZONE = 4
NODES_A_JOB = 4
HOUR = 3600.0

HARDWARE = {
    "hot": "thermal-throttle",
    "xid": "gpu-xid",
    "ecc": "ecc-uncorrectable",
    "narrow": "pcie-degraded",
    "grows": "memory-slow-growth",
}
"""What befalls one GPU, and the symptom by which the rules name it."""

NODES_A_FAULT = 4
"""One node in so many has a fault of its own."""


@dataclass(frozen=True)
class Fault:
    """`kind` is one of `HARDWARE` or `slow` (all ranks of the node); seconds from the start.

    It goes on until `end`; `gpu` is -1 where it is the whole node's.
    """

    node: int
    gpu: int
    kind: str
    start: float
    end: float

    @property
    def symptom(self) -> str:
        return HARDWARE.get(self.kind, "straggler")


def node_name(node: int) -> str:
    return f"node{node:05}"


def job_of(node: int) -> str:
    return f"job{node // NODES_A_JOB:04}"


def places(node: int) -> dict[str, str]:
    """The labels by which nodes belong together."""
    rack = node // NODES_A_RACK
    return {"rack": f"r{rack:04}", "zone": f"z{rack // RACKS_A_ZONE}"}


def planted(nodes: int, seconds: float, seed: int) -> list[Fault]:
    """One kind after another over the nodes; in a fleet of three racks or more one overheats."""
    random = Random(seed)
    return [*_single(nodes, seconds, random), *_rack(nodes, seconds, random)]


def hot_rack(nodes: int) -> int | None:
    """The rack whose cooling fails, None in a fleet too small to tell that from chance."""
    racks = nodes // NODES_A_RACK
    return racks - 1 if racks >= 3 else None


def _single(nodes: int, seconds: float, random: Random) -> Iterator[Fault]:
    kinds = [*HARDWARE, "slow"]
    for at, node in enumerate(range(1, nodes, NODES_A_FAULT)):
        if node // NODES_A_RACK == hot_rack(nodes):
            continue
        kind = kinds[at % len(kinds)]
        # Growth is told by its trend over hours; all else has time to be seen and to end.
        start = 0.0 if kind == "grows" else seconds * random.uniform(0.2, 0.5)
        end = start + min(2 * HOUR, seconds * 0.4) if kind in ("hot", "slow") else seconds
        yield Fault(node, -1 if kind == "slow" else random.randrange(GPUS), kind, start, end)


def _rack(nodes: int, seconds: float, random: Random) -> Iterator[Fault]:
    rack = hot_rack(nodes)
    if rack is not None:
        first = rack * NODES_A_RACK
        for node in range(first, first + NODES_A_RACK - 2):
            yield Fault(node, random.randrange(GPUS), "hot", seconds * 0.7, seconds)
