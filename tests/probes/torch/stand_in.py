"""A torch of names alone, of which any can be taken away or made to fail."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

C10D = "_C._distributed_c10d"
DDP = "nn.parallel.DistributedDataParallel"
LOADER = "utils.data.dataloader._BaseDataLoaderIter"
FUNCTIONAL = "distributed._functional_collectives"
RESTS_ON = {
    "loader_iterator": f"{LOADER}.__next__",
    "loader_dataset": LOADER,
    "loader_depth": LOADER,
    "loader_capacity": LOADER,
    "ddp_rate": f"{DDP}._set_ddp_runtime_logging_sample_rate",
    "ddp_logging": f"{DDP}._get_ddp_logging_data",
    "flight_recorder": f"{C10D}._dump_fr_trace",
    "nccl_recorder": f"{C10D}._dump_nccl_trace",
    "work_wait": f"{C10D}.Work.wait",
    "collectives": f"{C10D}.ProcessGroup.allreduce",
    "group_label": "distributed.get_process_group_ranks",
    "functional_wait": f"{FUNCTIONAL}.wait_tensor",
    "cuda_stamp": "cuda.Event",
    "cuda_elapsed": "cuda.Event",
    "cuda_stream": "cuda.current_stream",
    "stream_wait": "cuda.Stream.wait_event",
    "memory_stats": "cuda.memory_stats_as_nested_dict",
    "pinned_stats": "cuda.host_memory_stats_as_nested_dict",
    "oom_observer": "_C._cuda_attach_out_of_memory_observer",
    "record_history": "cuda.memory._record_memory_history",
    "snapshot": "cuda.memory._snapshot",
    "profiler_busy": "autograd._profiler_enabled",
}
"""The name in torch that each feature cannot be without."""
BESIDES = ("_C._cuda_memoryStats", "cuda.is_current_stream_capturing")


def stand_in(function: Callable[..., Any], without: str = "") -> Any:
    """A module with all these names, each `function`, but for one."""
    root = SimpleNamespace()
    # The longer first: a name that others hang below is there already.
    for path in sorted({*RESTS_ON.values(), *BESIDES}, key=len, reverse=True):
        *owners, last = path.split(".")
        place = root
        for owner in owners:
            if not hasattr(place, owner):
                setattr(place, owner, SimpleNamespace())
            place = getattr(place, owner)
        if not hasattr(place, last):
            setattr(place, last, function)
    if without:
        *owners, last = without.split(".")
        place = root
        for owner in owners:
            place = getattr(place, owner)
        delattr(place, last)
    return root
