"""Every private API of torch that the hooks use, found or not: the only module that names one.

Made for torch 2.4 to 2.13 and run on 2.13.0; `make torch-matrix` tries others. Each feature says in
`status` what was found: `found`, `missing` (this torch or build lacks it) or `changed: ...` (it is
there and does not answer as we know it; it is then left alone). A value that rests on it is absent
from then on.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

FUNCTIONAL = "torch.distributed._functional_collectives"
COLLECTIVES = (
    "_allgather_base", "_reduce_scatter_base", "all_gather_single", "all_to_all_single",
    "allgather", "allgather_coalesced", "allgather_into_tensor_coalesced", "allreduce",
    "allreduce_coalesced", "alltoall", "alltoall_base", "barrier", "broadcast", "gather",
    "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor_coalesced",
    "scatter",
)  # fmt: skip
POINT_TO_POINT = ("send", "recv", "recv_anysource")
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


class Place:
    """Where functions of torch are wrapped to be timed: an owner, and those of the names it has."""

    def __init__(self, name: str, owner: Any, names: tuple[str, ...]) -> None:
        self.name = name
        self._wanted = names
        self.look(owner)

    def look(self, owner: Any) -> None:
        """Take `owner`, perhaps a module that is imported only now."""
        self.owner = owner
        self.names = tuple(n for n in self._wanted if owner is not None and n in vars(owner))
        self.status = "found" if self.names else "missing"

    def __bool__(self) -> bool:
        return bool(self.names)


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
        self.loader_iterator = Place("loader_iterator", loader, ("__next__",))
        dataset = (lambda it: it._dataset) if loader else None
        self.loader_dataset = Feature("loader_dataset", dataset)
        self.loader_depth = Feature("loader_depth", _loader_depth if loader else None)
        self.loader_capacity = Feature("loader_capacity", _loader_capacity if loader else None)
        ddp = _find(torch, "nn.parallel.DistributedDataParallel")
        self.ddp_rate = Feature("ddp_rate", _method(ddp, "_set_ddp_runtime_logging_sample_rate"))
        self.ddp_logging = Feature("ddp_logging", _method(ddp, "_get_ddp_logging_data"))
        self.flight_recorder = Feature("flight_recorder", _dump(c10d, "_dump_fr_trace"))
        self.nccl_recorder = Feature("nccl_recorder", _dump(c10d, "_dump_nccl_trace"))
        self.work_wait = Place("work_wait", _find(c10d, "Work"), ("wait",))
        group = _find(c10d, "ProcessGroup")
        self.collectives = Place("collectives", group, (*COLLECTIVES, *POINT_TO_POINT))
        # Imported by whoever first uses functional collectives; nobody waits in them before.
        functional = sys.modules.get(FUNCTIONAL)
        self.functional_wait = Place("functional_wait", functional, ("wait_tensor",))
        ranks = _find(torch, "distributed.get_process_group_ranks") if group else None
        self.group_label = Feature("group_label", _group_label(ranks) if ranks else None)
        stamp = _find(cuda, "Event") and _find(cuda, "is_current_stream_capturing")
        self.cuda_stamp = Feature("cuda_stamp", _stamp(cuda) if stamp else None)
        self.cuda_elapsed = Feature("cuda_elapsed", _elapsed if stamp else None)
        self.cuda_stream = Feature("cuda_stream", _method(cuda, "current_stream"))
        self.stream_wait = Place("stream_wait", _find(cuda, "Stream"), ("wait_event",))
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
        known = (f for f in vars(self).values() if isinstance(f, Feature | Place))
        return {found.name: found.status for found in known}


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


def _group_label(ranks: Callable[[Any], Any]) -> Callable[[Any], tuple[str, str, list[int]]]:
    """The group's name, the user's word on it, its ranks in the world."""
    return lambda group: (str(group.group_name), str(group.group_desc), list(ranks(group)))


def _stamp(cuda: Any) -> Callable[[], Any]:
    """An event recorded now on the current stream."""

    def stamp() -> Any:
        # In a capture it would become part of the graph.
        if cuda.is_current_stream_capturing():
            return None
        event = cuda.Event(enable_timing=True)
        event.record()
        return event

    return stamp


def _elapsed(before: Any, after: Any) -> float | None:
    """Seconds between two events, None while the GPU has not come to the later; never waits."""
    return before.elapsed_time(after) / 1e3 if after.query() else None


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
