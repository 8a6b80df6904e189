"""How long the loop waits for data, how many batches are ready, and what a batch holds."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable
from typing import Any

from gpudiag.probes.torch.batch import BatchReader
from gpudiag.probes.torch.cuda_times import CudaTimes
from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.meter import Value


class Loader:
    """Times `next()` of every DataLoader iterator of this process.

    With `only`, a DataLoader, the iterators over other datasets (evaluation) do not count.
    Samples and tokens told by the user (`tell`) take the place of those seen in batches.
    """

    def __init__(self, features: Features, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._features = features
        self._clock = clock
        self._read = BatchReader().read
        self._iterator: Callable[[], Any] = lambda: None
        self._counts = True
        self._only: Any = None
        self._wait = 0
        self._batches = 0
        self._samples = self._tokens = 0
        self._size = self._length = 0
        self._told = False

    def name(self, loader: Any) -> None:
        """Count the iterators over this loader's dataset alone."""
        self._only = weakref.ref(loader)
        self._iterator = lambda: None

    def timed(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`__next__` of the iterator's class, timed."""
        clock, fetched = self._clock, guarded(self.fetched)

        @functools.wraps(original)
        def next_batch(iterator: Any) -> Any:
            start = clock()
            batch = original(iterator)
            fetched(iterator, clock() - start, batch)
            return batch

        return next_batch

    def timed_on_gpu(self, original: Callable[[Any], Any], cuda: CudaTimes) -> Callable[[Any], Any]:
        """As `timed`, where `cuda` looks too whether the GPU had work meanwhile."""
        before, after, by_host = guarded(cuda.before), guarded(cuda.after), self.timed(original)

        @functools.wraps(original)
        def next_batch(iterator: Any) -> Any:
            span = before(False)
            batch = by_host(iterator)
            after(span, "data")
            return batch

        return next_batch

    def fetched(self, iterator: Any, waited: int, batch: Any) -> None:
        """A batch came after `waited` nanoseconds."""
        if self._iterator() is not iterator:
            self._meet(iterator)
        if not self._counts:
            return
        self._wait += waited
        self._batches += 1
        if self._told:
            return
        size, length = self._read(batch)
        if size:
            self._size, self._length = size, length
            self._samples += size
            self._tokens += size * length

    def waited(self, nanoseconds: int) -> None:
        """Data wait of a loop without a DataLoader."""
        self._wait += nanoseconds
        self._batches += 1

    def tell(self, samples: int | None, tokens: int | None) -> None:
        """What the user says of this step, instead of what batches show."""
        if not self._told:
            self._told = True
            self._samples = self._tokens = self._size = self._length = 0
        self._samples += samples or 0
        self._tokens += tokens or 0
        if samples:
            self._size = samples
            self._length = (tokens or 0) // samples

    def take(self, steps: int) -> list[Value]:
        """Wait and batches a step; queue depth as it is at this boundary."""
        if not self._batches and not self._told:
            return []
        values: list[Value] = [("gpudiag_train_samples_total", {}, float(self._samples))]
        values += [("gpudiag_train_tokens_total", {}, float(self._tokens))] * (self._tokens > 0)
        values += [("gpudiag_train_batch_size", {}, float(self._size))] * (self._size > 0)
        values += [("gpudiag_train_sequence_length", {}, float(self._length))] * (self._length > 0)
        if self._batches and steps > 0:
            values.append(("gpudiag_train_data_wait_seconds", {}, self._wait / steps / 1e9))
            values.append(("gpudiag_train_micro_batches", {}, self._batches / steps))
        self._wait = self._batches = 0
        return [*values, *self._queue()]

    def _queue(self) -> list[Value]:
        iterator = self._iterator()
        if iterator is None or not self._counts:
            return []
        depth = self._features.loader_depth(iterator)
        capacity = self._features.loader_capacity(iterator)
        if depth is None or capacity is None:
            return []
        return [
            ("gpudiag_train_loader_queue_depth", {}, float(depth)),
            ("gpudiag_train_loader_queue_capacity", {}, float(capacity)),
        ]

    def _meet(self, iterator: Any) -> None:
        """Another iterator than at the last batch."""
        self._iterator = weakref.ref(iterator)
        only = self._only() if self._only else None
        dataset = self._features.loader_dataset(iterator)
        self._counts = only is None or dataset is None or dataset is only.dataset
