"""The same transformer, its parameters sharded over the ranks (FSDP2 over gloo).

Run it so:

    gpudiag run -- torchrun --standalone --nproc-per-node 2 fsdp2.py
"""

from __future__ import annotations

from itertools import islice

import tiny
import torch
import torch.distributed as dist
from misbehave import Misbehaviour
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def sharded(model: tiny.Transformer) -> tiny.Transformer:
    """The model with each block, and the rest, sharded over all ranks."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def main() -> None:
    """Train for `--steps` steps."""
    told = tiny.parse("Train a small sharded transformer on several ranks.")
    rank = tiny.start()
    faults = Misbehaviour(told, rank)
    model = sharded(tiny.Transformer())
    faults.attach(model.blocks[0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batches = tiny.forever(tiny.loader(told, faults))
    for step, tokens in enumerate(islice(batches, told.steps), start=1):
        optimizer.zero_grad()
        loss = tiny.loss_of(model, tokens)
        loss.backward()
        optimizer.step()
        tiny.report(told, rank, step, loss)
        faults.step(step, loss)
    tiny.finish()


if __name__ == "__main__":
    main()
