"""One closer look at one rank: recordings and censuses at the end of a step, then what they say."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from gpudiag.agent.escalation.found import Found, of_census, of_report
from gpudiag.agent.escalation.shelf import Shelf
from gpudiag.agent.escalation.suspicion import Suspect
from gpudiag.probes.errors import GpudiagError

RECORDED_STEPS = 12
"""Enough for a trend inside one recording (the report wants ten cycles) and few enough for its
100,000 entries."""

LOOKS = 3

CENSUS_SECONDS = 1.0
"""The most that one census may hold the training thread: three times in six hours."""

ANSWER_SECONDS = 120.0
REPORT_SECONDS = 600.0


class Answer(Protocol):
    """What a rank answered."""

    @property
    def ok(self) -> bool: ...

    @property
    def detail(self) -> str: ...

    @property
    def fields(self) -> Mapping[str, Any]: ...


class Ranks(Protocol):
    """The way down to the ranks; raises `GpudiagError` where nothing was sent."""

    def command(
        self, job: str, name: str, args: Mapping[str, Any], *, timeout: float, rank: int | None
    ) -> Sequence[Answer]: ...

    def owner(self, job: str, rank: int) -> int | None:
        """The user that the rank's process runs as; None where it is gone."""


class Snapshots:
    """The paths that ranks announce, for those who wait for one."""

    def __init__(self) -> None:
        self._come = threading.Condition()
        self._paths: dict[Suspect, Path] = {}

    def announced(self, who: Suspect, path: Path) -> None:
        """A rank has written a snapshot."""
        with self._come:
            self._paths[who] = path
            self._come.notify_all()

    def forget(self, who: Suspect) -> None:
        """One that was announced before is not what is waited for now."""
        with self._come:
            self._paths.pop(who, None)

    def next(self, who: Suspect, seconds: float) -> Path:
        """The next one of this rank; raises `GpudiagError` where none comes in time."""
        with self._come:
            if not self._come.wait_for(lambda: who in self._paths, seconds):
                raise GpudiagError("the recording was begun and no snapshot came of it")
            return self._paths.pop(who)


class Capture:
    """Takes snapshots where the process has a CUDA allocator, and censuses anywhere."""

    def __init__(
        self,
        ranks: Ranks,
        snapshots: Snapshots,
        shelf: Shelf,
        gap: float,
        wait: Callable[[float], object] = time.sleep,
    ) -> None:
        """`gap` seconds lie between two looks."""
        self._ranks = ranks
        self._snapshots = snapshots
        self._shelf = shelf
        self._gap = gap
        self._wait = wait

    def look(self, who: Suspect) -> Found:
        """Blocks for minutes; raises `GpudiagError` where the rank is gone or cannot do it."""
        files: list[Path] = []
        counted: list[Mapping[str, Any]] = []
        steps: list[int] = []
        for number in range(LOOKS):
            if number:
                self._wait(self._gap)
            files += self._recorded(who, number)
            steps.append(int(self._ask(who, "ping").fields.get("step", 0)))
            counted.append(self._ask(who, "census", seconds=CENSUS_SECONDS).fields)
        census = self._shelf.write(f"{_stem(who)}-census.json", json.dumps(counted[-1]).encode())
        found = of_report(reported(files, census)) if files else of_census(counted, steps)
        return msgspec.structs.replace(found, files=(*map(str, files), str(census)))

    def _recorded(self, who: Suspect, number: int) -> list[Path]:
        """The snapshot of a short recording; none where there is no CUDA allocator."""
        self._snapshots.forget(who)
        answer = self._tell(who, "record_steps", steps=RECORDED_STEPS)
        if not answer.ok:
            return []
        path = self._snapshots.next(who, ANSWER_SECONDS)
        owner = self._ranks.owner(who.job, who.rank)
        if owner is None:
            raise GpudiagError("the rank has ended")
        return [self._shelf.keep(path, f"{_stem(who)}-{number}{path.suffix}", owner)]

    def _ask(self, who: Suspect, name: str, **args: Any) -> Answer:
        answer = self._tell(who, name, **args)
        if not answer.ok:
            raise GpudiagError(f"{name} was not taken: {answer.detail}")
        return answer

    def _tell(self, who: Suspect, name: str, **args: Any) -> Answer:
        (answer, *_) = self._ranks.command(
            who.job, name, args, timeout=ANSWER_SECONDS, rank=who.rank
        )
        return answer


def reported(files: Sequence[Path], census: Path) -> dict[str, Any]:
    """What `gpudiag leak-report` says, run as a child: its memory is gone when it ends."""
    command = [sys.executable, "-I", "-m", "gpudiag.agent", "leak-report", "--json"]
    command += ["--census", str(census), *map(str, files)]
    try:
        done = subprocess.run(
            ["nice", *command], capture_output=True, timeout=REPORT_SECONDS, check=False
        )
        report: dict[str, Any] = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise GpudiagError(f"the snapshots could not be read: {error}") from error
    return report


def _stem(who: Suspect) -> str:
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in who.job)[:60]
    return f"{safe}-rank{who.rank}-{time.time_ns() // 1_000_000}"
