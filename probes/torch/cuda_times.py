"""Times of the GPU itself: steps by CUDA events, and one step a second looked at closely."""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.guard import guarded

# Of each step looked at; with more the step is given up.
SPANS = 512
SAMPLES = 4
MARKS = 16


@dataclass(slots=True)
class _Sample:
    """One step on `stream`, with the spans in which the stream waited: kind, group, events."""

    stream: Any
    begin: Any
    spans: list[tuple[str, str, Any, Any]] = field(default_factory=list)
    end: Any = None
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Gpu:
    """Seconds of the GPU. `step` is the mean of all steps; the rest is of the steps looked at:
    `sampled` their time, `data` and `comm` (by group) what their stream waited. None where no
    events were complete, as with `comm` where not every wait could be seen.
    """

    step: float | None = None
    sampled: float | None = None
    data: float = 0.0
    comm: dict[str, float] | None = None


class CudaTimes:
    """Records events at step boundaries and around waits, and asks at later boundaries whether
    the GPU has come to them: nothing here waits. The host's clock would say when work was queued.

    A span's two events lie on the stream of training: between them it did nothing but wait, be it
    for another stream or for the host, and what the queue hid counts as nothing.
    """

    def __init__(self, torch: Any, features: Features) -> None:
        self._initialized = torch.cuda.is_initialized
        self._features = features
        self._open: _Sample | None = None
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)
        self._marks: deque[tuple[Any, int]] = deque(maxlen=MARKS)
        self._done: list[Gpu] = []
        self._elapsed, self._steps = 0.0, 0

    def active(self) -> bool:
        """Whether this process has a GPU in use, and events to time it."""
        return bool(self._features.cuda_stamp) and bool(self._initialized())

    def begin(self, count: int) -> None:
        """Look closely at the step that begins now, after `count` steps."""
        event, stream = self._stamp(), self._features.cuda_stream()
        if event is None or stream is None:
            self._marks.clear()
            return
        self._marks.append((event, count))
        self._open = _Sample(stream, event)

    def ended(self, spoiled: bool) -> None:
        """A step ended; `spoiled` where it did other things, such as write a checkpoint."""
        sample, self._open = self._open, None
        if sample is not None and not sample.broken and not spoiled:
            sample.end = self._stamp()
            if sample.end is not None:
                self._samples.append(sample)
        self._poll()

    def before(self, work: bool = True) -> tuple[_Sample, Any] | None:
        """The beginning of a wait, for `after`; None where it is not looked at."""
        sample = self._open
        if sample is None:
            return None
        if self._features.cuda_stream() != sample.stream:
            # Waits of other streams count when this one waits for them, if that can be seen.
            sample.broken |= work and not self._features.stream_wait
            return None
        event = self._stamp()
        sample.broken |= event is None or len(sample.spans) >= SPANS
        return None if sample.broken else (sample, event)

    def after(self, before: tuple[_Sample, Any] | None, kind: str, group: str = "") -> None:
        """The wait ended."""
        if before is not None and before[0] is self._open:
            event = self._stamp()
            before[0].broken |= event is None
            before[0].spans.append((kind, group, before[1], event))

    def stream_wait(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Stream.wait_event`: what torch.distributed has the stream of training wait for."""
        before, after = guarded(self._before_event), guarded(self.after)

        @functools.wraps(original)
        def wait_event(stream: Any, event: Any) -> Any:
            if self._open is None:
                return original(stream, event)
            span = before(stream)
            answer = original(stream, event)
            after(span, "comm")
            return answer

        return wait_event

    def take(self) -> Gpu:
        """Means of what was completed since the last call."""
        done, self._done = self._done, []
        elapsed, steps = self._elapsed, self._steps
        self._elapsed, self._steps = 0.0, 0
        step = elapsed / steps if steps else None
        if not done:
            return Gpu(step)
        groups = {group for one in done for group in one.comm or ()}
        return Gpu(
            step,
            sum(one.sampled or 0.0 for one in done) / len(done),
            sum(one.data for one in done) / len(done),
            {g: sum((one.comm or {}).get(g, 0.0) for one in done) / len(done) for g in groups},
        )

    def _before_event(self, stream: Any) -> tuple[_Sample, Any] | None:
        # Frames: this, the guard, the wrapper, whoever called it.
        frame: Any = sys._getframe(3)
        if frame.f_globals.get("__name__") == "torch.cuda.streams":
            frame = frame.f_back
        asked = str(frame.f_globals.get("__name__", "")) if frame else ""
        sample = self._open
        if sample is None or stream != sample.stream or not asked.startswith("torch.distributed"):
            return None
        return self.before(work=False)

    def _stamp(self) -> Any:
        return self._features.cuda_stamp()

    def _poll(self) -> None:
        elapsed = self._features.cuda_elapsed
        while len(self._marks) > 1:
            (first, count), (second, later) = self._marks[0], self._marks[1]
            seconds = elapsed(first, second)
            if seconds is None:
                break
            self._elapsed += seconds
            self._steps += later - count
            self._marks.popleft()
        while self._samples and (seconds := elapsed(*_ends(self._samples[0]))) is not None:
            self._done.append(self._read(self._samples.popleft(), seconds))

    def _read(self, sample: _Sample, seconds: float) -> Gpu:
        data = 0.0
        comm: dict[str, float] = {}
        for kind, group, before, after in sample.spans:
            spent = self._features.cuda_elapsed(before, after) or 0.0
            if kind == "data":
                data += spent
            else:
                comm[group] = comm.get(group, 0.0) + spent
        return Gpu(None, seconds, data, comm)


def _ends(sample: _Sample) -> tuple[Any, Any]:
    return sample.begin, sample.end
