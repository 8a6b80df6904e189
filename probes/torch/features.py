"""Every private API of torch that the hooks use, found or not: the only module that names one.

Made for torch 2.4 to 2.13 and run on 2.13.0; `make torch-matrix` tries others. Each feature says in
`status` what was found: `found`, `missing` (this torch or build lacks it) or `changed: ...` (it is
there and does not answer as we know it; it is then left alone). A value that rests on it is absent
from then on.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import Any

# One failure may be the moment (no process group yet); this many in a row is the interface.
CHANGED_AFTER = 3


class Feature:
    """One private API: call it; None is the answer where it is missing or failed."""

    def __init__(self, name: str, call: Callable[..., Any] | None) -> None:
        self.name = name
        self.status = "found" if call else "missing"
        self._call = call
        self._failed = 0

    def __bool__(self) -> bool:
        return self._call is not None

    def __call__(self, *args: Any) -> Any:
        if self._call is None:
            return None
        try:
            answer = self._call(*args)
        except Exception as error:
            self._failed += 1
            if self._failed >= CHANGED_AFTER:
                self._call = None
                self.status = f"changed: {type(error).__name__}: {error}"[:200]
            return None
        self._failed = 0
        return answer


class Unpickler(pickle.Unpickler):
    """Reads a dump of plain values; anything that names a class or function is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} in a dump of plain values")


class Features:
    """The private APIs of the torch that is loaded (`torch` may be a stand-in in tests)."""

    def __init__(self, torch: Any) -> None:
        loader = _find(torch, "utils.data.dataloader._BaseDataLoaderIter")
        cuda = _find(torch, "cuda") if _find(torch, "_C._cuda_memoryStats") else None
        c10d = _find(torch, "_C._distributed_c10d")
        self.loader_iterator = loader if loader and "__next__" in vars(loader) else None
        self.loader_dataset = Feature("loader_dataset", lambda it: it._dataset)
        self.loader_depth = Feature("loader_depth", _loader_depth if loader else None)
        self.loader_capacity = Feature("loader_capacity", _loader_capacity if loader else None)
        ddp = _find(torch, "nn.parallel.DistributedDataParallel")
        self.ddp_rate = Feature("ddp_rate", _method(ddp, "_set_ddp_runtime_logging_sample_rate"))
        self.ddp_logging = Feature("ddp_logging", _method(ddp, "_get_ddp_logging_data"))
        self.flight_recorder = Feature("flight_recorder", _dump(c10d, "_dump_fr_trace"))
        self.nccl_recorder = Feature("nccl_recorder", _dump(c10d, "_dump_nccl_trace"))
        self.memory_stats = Feature("memory_stats", _method(cuda, "memory_stats_as_nested_dict"))
        self.pinned_stats = Feature(
            "pinned_stats", _method(cuda, "host_memory_stats_as_nested_dict")
        )
        self.oom_observer = Feature(
            "oom_observer", _find(torch, "_C._cuda_attach_out_of_memory_observer")
        )
        history = cuda and _find(torch, "cuda.memory._record_memory_history")
        self.record_history = Feature("record_history", history)
        self.snapshot = Feature("snapshot", cuda and _find(torch, "cuda.memory._snapshot"))
        self.profiler_busy = Feature("profiler_busy", _find(torch, "autograd._profiler_enabled"))

    def said(self) -> dict[str, str]:
        """What was found, by name: goes into the hello packet."""
        features = {f.name: f.status for f in vars(self).values() if isinstance(f, Feature)}
        found = "found" if self.loader_iterator is not None else "missing"
        return {"loader_iterator": found, **features}


def _find(root: Any, path: str) -> Any:
    """`root.a.b` for "a.b", None where a name is missing; imports nothing."""
    for name in path.split("."):
        root = getattr(root, name, None)
        if root is None:
            return None
    return root


def _method(owner: Any, name: str) -> Callable[..., Any] | None:
    return getattr(owner, name, None) if owner is not None else None


def _dump(c10d: Any, name: str) -> Callable[[bool], dict[str, Any]] | None:
    """The recorder's content; entries only when asked, stacks never: the first cost seconds."""
    raw = _method(c10d, name)
    if raw is None:
        return None

    def dump(entries: bool) -> dict[str, Any]:
        data = raw(includeCollectives=entries, includeStackTraces=False, onlyActive=False)
        content: dict[str, Any] = Unpickler(io.BytesIO(data)).load()
        return content

    return dump


def _loader_depth(iterator: Any) -> int | None:
    """Batches that are ready for the loop; None where there are no workers to fetch ahead."""
    if not iterator._num_workers:
        return None
    arrived = sum(len(info) == 2 for info in list(iterator._task_info.values()))
    return int(iterator._data_queue.qsize()) + arrived


def _loader_capacity(iterator: Any) -> int | None:
    """Batches that the workers may fetch ahead."""
    if not iterator._num_workers:
        return None
    return int(iterator._num_workers) * int(iterator._prefetch_factor)
