"""How much canaries may ask of each server in an hour, remembered over restarts."""

from __future__ import annotations

import json
from pathlib import Path

from gpudiag.probes.serving.baselines import write_private

HOUR = 3600.0
MAX_FILE = 4 * 1024**2


class Budget:
    """A sliding hour of requests and tokens per server.

    It is on disk because an agent that crashes again and again would else ask at each start.
    """

    def __init__(self, path: Path, *, requests: int, tokens: int) -> None:
        self._path = path
        self._requests = requests
        self._tokens = tokens
        self._spent = _read(path)

    def take(self, server: str, tokens: int, now: float) -> bool:
        """Take one request of so many tokens; False where it would be too much."""
        # A spending in the future is of a clock that was wrong.
        spent = [(at, cost) for at, cost in self._spent.get(server, []) if 0 <= now - at < HOUR]
        self._spent[server] = spent
        cost = sum(cost for _, cost in spent) + tokens
        if len(spent) >= self._requests or cost > self._tokens:
            return False
        spent.append((now, tokens))
        return True

    def save(self) -> None:
        """Write it down; a disk that refuses costs only the memory over a restart."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_private(self._path, json.dumps(self._spent).encode())
        except OSError:
            return


def _read(path: Path) -> dict[str, list[tuple[float, int]]]:
    try:
        with path.open("rb") as file:
            held = json.loads(file.read(MAX_FILE))
        return {
            str(server): [(float(at), int(cost)) for at, cost in spent]
            for server, spent in held.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
