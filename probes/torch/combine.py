"""What follows from several measures together: compute time and micro-batches."""

from __future__ import annotations

from gpudiag.probes.torch.meter import Value

STEP = "gpudiag_train_step_seconds"
DATA = "gpudiag_train_data_wait_seconds"
COMM = "gpudiag_train_comm_wait_seconds"
MICRO = "gpudiag_train_micro_batches"


def combined(
    values: list[Value], steps: int, checkpoint_ns: int, backwards: int, alone: bool
) -> list[Value]:
    """The values to add. Compute is the step less what it waited for others, data or storage.

    It is absent where there are other ranks and the wait for them was not measured. Without a
    loader the calls of backward a step are the micro-batches.
    """
    found = {name: value for name, _, value in values}
    added: list[Value] = []
    if STEP in found and steps > 0 and (alone or COMM in found):
        waits = found.get(DATA, 0.0) + found.get(COMM, 0.0) + checkpoint_ns / steps / 1e9
        if found[STEP] > waits:
            added.append(("gpudiag_train_compute_seconds", {}, found[STEP] - waits))
    if MICRO not in found and backwards and steps > 0:
        added.append((MICRO, {}, backwards / steps))
    return added
