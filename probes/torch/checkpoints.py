"""How long writing checkpoints takes, and whether they were written: torch.save and DCP."""

from __future__ import annotations

import functools
import io
import threading
import time
from collections.abc import Callable
from typing import Any

from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.meter import Value

Tell = Callable[[str, str], object]


class Checkpoints:
    """Times the outermost call of the functions it wraps.

    Files written between two steps are one checkpoint: its seconds add up, it counts once. What
    is saved to memory (`BytesIO`) and what a library saves from a thread of its own is none.
    `tell(type, line)` is called for what a person wants to know at once.
    """

    def __init__(
        self,
        tell: Tell,
        step: Callable[[], int],
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self.spent_ns = 0
        self._tell = guarded(tell)
        self._step = step
        self._clock = clock
        self._inside = False
        self._at = -1
        self._last = 0
        self._saves = self._failures = 0

    def saving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original` timed as a save."""
        return self._wrapped(original, self.spent, "checkpoint_saved")

    def loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`original` told as a load."""
        return self._wrapped(original, lambda _: None, "checkpoint_loaded")

    def spent(self, nanoseconds: int) -> None:
        """A part of a checkpoint was written."""
        step = self._step()
        if step != self._at:
            self._at, self._last = step, 0
            self._saves += 1
        self._last += nanoseconds
        self.spent_ns += nanoseconds

    def take(self, steps: int) -> list[Value]:  # noqa: ARG002 - checkpoints are rarer than steps
        """Seconds of the last checkpoint; 0 when there was none. Ends `spent_ns`, the sum."""
        last, self._last, self.spent_ns = self._last, 0, 0
        return [
            ("gpudiag_train_checkpoint_seconds", {}, last / 1e9),
            ("gpudiag_checkpoint_saves_total", {}, float(self._saves)),
            ("gpudiag_checkpoint_failures_total", {}, float(self._failures)),
        ]

    def _wrapped(
        self, original: Callable[..., Any], spent: Callable[[int], None], done: str
    ) -> Callable[..., Any]:
        @functools.wraps(original)
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self._inside or not _counts(args, kwargs):
                return original(*args, **kwargs)
            self._inside = True
            start = self._clock()
            try:
                answer = original(*args, **kwargs)
            except Exception as error:
                self._failed(done, error)
                raise
            finally:
                self._inside = False
            if done != "checkpoint_saved" or self._at != self._step():
                self._tell(done, _target(args, kwargs))
            spent(self._clock() - start)
            return answer

        return timed

    def _failed(self, done: str, error: Exception) -> None:
        if done == "checkpoint_saved":
            self._failures += 1
            self._tell("checkpoint_failed", f"{type(error).__name__}: {error}")


def _counts(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    file = args[1] if len(args) > 1 else kwargs.get("f")
    if isinstance(file, io.BytesIO) or (args and isinstance(args[0], io.BytesIO)):
        return False
    return threading.current_thread() is threading.main_thread()


def _target(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Where it was written or read, where the call shows it."""
    paths = [*args, *kwargs.values()]
    return next((str(p) for p in paths if isinstance(p, str) or hasattr(p, "__fspath__")), "")
