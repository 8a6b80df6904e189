"""How process groups are called in series, and whether they lie within one node."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

INTRA, INTER = "intra_node", "inter_node"


def group_name(number: str, description: str) -> str:
    """Group 0 is the default; others go by number and the description the user gave."""
    if number == "0":
        return "default"
    return f"{number}:{description}" if description not in {"", "undefined"} else number


def scope(ranks: Iterable[int], environment: Mapping[str, str] = os.environ) -> str | None:
    """Whether all of these ranks of the world run on one node; None where nothing tells.

    By `LOCAL_WORLD_SIZE`, as torchrun sets it, which numbers the ranks node by node.
    """
    size = environment.get("LOCAL_WORLD_SIZE", "")
    if not size.isdigit() or int(size) == 0:
        return None
    return INTRA if len({rank // int(size) for rank in ranks}) == 1 else INTER
