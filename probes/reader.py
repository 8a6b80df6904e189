"""The agent's side of a reader child: a process of its own for calls that may hang for ever.

A driver call in D state cannot be cancelled, not even by SIGKILL. So it runs in a child, the agent
watches its heartbeat, and no second child of a kind is started while the old one is not reaped.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gpudiag.probes.frames import DOING, Frame, split

_MOST_BYTES = 1 << 20
_CLOSE_SECONDS = 0.4
_LIVED_WELL = 60.0

# Also those abandoned by a reader that was closed: they still hold the driver.
_children: dict[str, subprocess.Popen[bytes]] = {}
_children_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class Notice:
    """A turn in the child's life; `seconds` is how long it was silent, or had lived when it ended.

    `status` is the exit code of one that ended, minus the signal's number if a signal ended it.
    """

    what: Literal["wedged", "recovered", "ended"]
    seconds: float
    status: int = 0


class Reader:
    """Keeps one child alive and drains its frames; only `poll` starts, reaps or kills.

    `deadline` is the longest silence in seconds, `start_deadline` that before the first frame that
    is not DOING; `backoff` the shortest and longest pause before a new start. `wedged` holds from a
    missed deadline until a child, this or a new one, sends a frame that is not DOING.
    """

    def __init__(
        self,
        kind: str,
        argv: Callable[[], Sequence[str]],
        *,
        env: Mapping[str, str] | None = None,
        deadline: float = 5.0,
        start_deadline: float = 30.0,
        backoff: tuple[float, float] = (1.0, 30.0),
        clock: Callable[[], float] = time.monotonic,
        kill: Callable[[int, int], None] = os.kill,
    ) -> None:
        self.wedged = False
        self._kind, self._argv, self._env = kind, argv, env
        self._deadline, self._start_deadline = deadline, start_deadline
        self._backoff, self._pause = backoff, backoff[0]
        self._clock, self._kill = clock, kill
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._buffer = bytearray()
        self._due = clock()
        self._born = self._heard = self._silent_since = self._due
        self._starting = True
        self._killed = self._closed = False
        self._notices: list[Notice] = []

    @property
    def pid(self) -> int | None:
        """The child's process id, None between children."""
        return self._child.pid if self._child else None

    @property
    def silence(self) -> float:
        """Seconds since the child was last heard; while wedged, since it fell silent."""
        return self._clock() - (self._silent_since if self.wedged else self._heard)

    def poll(self) -> tuple[list[Frame], list[Notice]]:
        """Frames and turns since the last call; never blocks."""
        with self._lock:
            if self._closed:
                return [], []
            if self._child is None:
                self._start()
            frames = self._turn(self._child) if self._child else []
            notices, self._notices = self._notices, []
            return frames, notices

    def close(self) -> None:
        """End the child, within a second; one that cannot die is left to the kernel."""
        with self._lock:
            self._closed = True
            child, self._child = self._child, None
        if child is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            if child.poll() is None:
                self._signal(child, number)
                _wait(child, _CLOSE_SECONDS)
        _close_pipe(child)

    def _start(self) -> None:
        if self._clock() < self._due:
            return
        with _children_lock:
            old = _children.get(self._kind)
            if old is not None and old.poll() is None:
                return
            # A session of its own: Ctrl-C in a terminal is for the agent, which then closes it.
            child = subprocess.Popen(
                self._argv(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                env=self._env,
                start_new_session=True,
            )
            _children[self._kind] = child
        os.set_blocking(_pipe(child), False)
        self._child, self._killed, self._starting = child, False, True
        self._born = self._heard = self._clock()
        self._buffer.clear()

    def _turn(self, child: subprocess.Popen[bytes]) -> list[Frame]:
        # Looked at before draining: what a child said before it died still counts.
        status = child.poll()
        frames = self._drain(child)
        if frames:
            self._hear(frames)
        if status is not None:
            self._ended(child, status)
        elif not self._killed and self._clock() - self._heard > self._limit():
            self._wedge(child)
        return frames

    def _drain(self, child: subprocess.Popen[bytes]) -> list[Frame]:
        fd, room = _pipe(child), _MOST_BYTES
        while room > 0:
            try:
                data = os.read(fd, 65536)
            except BlockingIOError:
                break
            if not data:
                break
            self._buffer += data
            room -= len(data)
        return split(self._buffer)

    def _hear(self, frames: list[Frame]) -> None:
        self._heard = self._clock()
        if all(frame.kind == DOING for frame in frames):
            return
        self._starting = False
        if self.wedged:
            self._notices.append(Notice("recovered", self._heard - self._silent_since))
            self.wedged = False

    def _limit(self) -> float:
        return self._start_deadline if self._starting else self._deadline

    def _wedge(self, child: subprocess.Popen[bytes]) -> None:
        if not self.wedged:
            self._silent_since, self.wedged = self._heard, True
            self._notices.append(Notice("wedged", self.silence))
        self._killed = True
        self._signal(child, signal.SIGKILL)

    def _ended(self, child: subprocess.Popen[bytes], status: int) -> None:
        lived = self._clock() - self._born
        self._notices.append(Notice("ended", lived, status))
        if lived > _LIVED_WELL:
            self._pause = self._backoff[0]
        self._due = self._clock() + self._pause
        self._pause = min(self._pause * 2, self._backoff[1])
        _close_pipe(child)
        self._child = None

    def _signal(self, child: subprocess.Popen[bytes], number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._kill(child.pid, number)


def _wait(child: subprocess.Popen[bytes], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(seconds)


def _pipe(child: subprocess.Popen[bytes]) -> int:
    if child.stdout is None:
        raise ValueError("the child was started without a pipe")
    return child.stdout.fileno()


def _close_pipe(child: subprocess.Popen[bytes]) -> None:
    if child.stdout is not None:
        child.stdout.close()
