"""How often a job may be looked at closely; kept on disk, so that a restart forgets nothing."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gpudiag.agent import files


class Budget:
    """One capture a job in `every` seconds. A file that cannot be read or written allows none."""

    def __init__(self, path: Path, every: float) -> None:
        self._path = path
        self._every = every

    def take(self, job: str, now: float) -> bool:
        """Use the job's turn, before anything is done with it; False where it has none."""
        try:
            used = self._used()
            if now - used.get(job, -self._every) < self._every:
                return False
            kept = {name: at for name, at in used.items() if now - at < self._every}
            files.replace(self._path, msgspec.json.encode({**kept, job: now}))
        except (OSError, msgspec.MsgspecError):
            return False
        return True

    def _used(self) -> dict[str, float]:
        if not self._path.exists():
            return {}
        return msgspec.json.decode(self._path.read_bytes(), type=dict[str, float])
