"""How many samples and tokens a batch has, as its first tensor of a known name shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NAMES = ("input_ids", "tokens", "token_ids", "inputs", "x", "pixel_values")
DEPTH = 3
INTEGERS = frozenset({"torch.int64", "torch.int32", "torch.uint8", "torch.int16"})


class BatchReader:
    """Finds the telling tensor of a batch once and looks there again at every batch."""

    def __init__(self) -> None:
        self._path: tuple[Any, ...] | None = None
        self._tokens = False

    def read(self, batch: Any) -> tuple[int, int]:
        """Samples and tokens a sample; zeros where the batch does not show them."""
        path = self._path
        if path is None:
            path = self._learn(batch)
        try:
            for key in path:
                batch = batch[key]
            shape = batch.shape
            return shape[0], (shape[1] if self._tokens else 0)
        except (KeyError, IndexError, TypeError, AttributeError):
            self._path = None
            return 0, 0

    def _learn(self, batch: Any) -> tuple[Any, ...]:
        self._path = path = _find(batch, DEPTH) or ()
        for key in path:
            batch = batch[key]
        shape = getattr(batch, "shape", ())
        self._tokens = len(shape) == 2 and str(getattr(batch, "dtype", "")) in INTEGERS
        return path


def _find(batch: Any, depth: int) -> tuple[Any, ...] | None:
    """Keys down to the telling tensor, None where there is none."""
    if len(getattr(batch, "shape", ())) > 0:
        return ()
    if depth == 0:
        return None
    for key in _keys(batch):
        below = _find(batch[key], depth - 1)
        if below is not None:
            return (key, *below)
    return None


def _keys(batch: Any) -> list[Any]:
    if isinstance(batch, Mapping):
        return sorted(batch, key=lambda key: NAMES.index(key) if key in NAMES else len(NAMES))
    return list(range(len(batch))) if isinstance(batch, list | tuple) else []
