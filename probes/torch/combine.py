"""What follows from several measures together: compute time and micro-batches."""

from __future__ import annotations

from gpudiag.probes.torch.cuda_times import Gpu
from gpudiag.probes.torch.meter import Value

STEP = "gpudiag_train_step_seconds"
DATA = "gpudiag_train_data_wait_seconds"
COMM = "gpudiag_train_comm_wait_seconds"
MICRO = "gpudiag_train_micro_batches"


def combined(
    values: list[Value],
    steps: int,
    checkpoint_ns: int,
    backwards: int,
    alone: bool,
    gpu: Gpu | None = None,
) -> list[Value]:
    """The values to add. Compute is the step less what it waited for others, data or storage.

    It is absent where there are other ranks and the wait for them was not measured. Where there
    is a GPU it is the GPU's time alone (`gpu`). Without a loader the calls of backward a step are
    the micro-batches.
    """
    found = {name: value for name, _, value in values}
    added: list[Value] = []
    step, waits = found.get(STEP), found.get(DATA, 0.0) + checkpoint_ns / max(steps, 1) / 1e9
    if gpu is not None:
        step, waits = gpu.sampled, gpu.data
    if step is not None and steps > 0 and (alone or COMM in found):
        waits += found.get(COMM, 0.0)
        if step > waits:
            added.append(("gpudiag_train_compute_seconds", {}, step - waits))
    if MICRO not in found and backwards and steps > 0:
        added.append((MICRO, {}, backwards / steps))
    return added


def of_gpu(values: list[Value], gpu: Gpu) -> list[Value]:
    """The step's time as the GPU took it; without it none, since the host's is when it queued."""
    kept = [value for value in values if value[0] != STEP]
    return kept if gpu.step is None else [*kept, (STEP, {}, gpu.step)]
