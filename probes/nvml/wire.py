"""What the NVML child says: series keys when they change, then bare values."""

from __future__ import annotations

import json
from array import array
from collections.abc import Mapping
from typing import Any, BinaryIO

from gpudiag.probes.frames import DOING, pack

KEYS, VALUES, STATUS, XID = 1, 2, 3, 4

INIT = "nvmlInit"
"""What a child does before it lists the GPUs; else it is the UUID that it reads, or nothing."""

Key = tuple[str, tuple[tuple[str, str], ...]]
"""A metric and the labels that it has beyond those of its set."""


class Readings:
    """The values of one set of series, in the order they were read."""

    __slots__ = ("keys", "values")

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.values = array("d")

    def add(self, key: Key, value: float) -> None:
        self.keys.append(key)
        self.values.append(value)


class Writer:
    """Frames to the agent. A broken pipe (BrokenPipeError) means that the agent is gone."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._keys: dict[int, list[Key]] = {}

    def readings(self, number: int, labels: Mapping[str, str], time: float, got: Readings) -> None:
        """The values of set `number`; its keys first if they are not those of the last time."""
        if self._keys.get(number) != got.keys:
            self._keys[number] = got.keys
            keys = [[metric, {**labels, **dict(extra)}] for metric, extra in got.keys]
            self._json(KEYS, {"set": number, "keys": keys})
        body = array("d", (number, time)).tobytes() + got.values.tobytes()
        self._pipe.write(pack(VALUES, body))

    def begin(self) -> None:
        """NVML is started next; after it the sets may mean other GPUs."""
        self._keys.clear()
        self.doing(INIT)

    def status(self, status: Mapping[str, Any]) -> None:
        self._json(STATUS, status)
        self._pipe.flush()

    def xid(self, event: Mapping[str, Any]) -> None:
        self._json(XID, event)
        self._pipe.flush()

    def doing(self, what: str) -> None:
        """What is done next, so that the agent can name it if it hangs; sends what waits."""
        self._pipe.write(pack(DOING, what.encode()))
        self._pipe.flush()

    def _json(self, kind: int, content: Mapping[str, Any]) -> None:
        self._pipe.write(pack(kind, json.dumps(content).encode()))


def values(payload: bytes) -> tuple[int, float, array[float]]:
    """Set number, time (epoch seconds) and values of a VALUES frame."""
    numbers = array("d")
    numbers.frombytes(payload)
    return int(numbers[0]), numbers[1], numbers[2:]
