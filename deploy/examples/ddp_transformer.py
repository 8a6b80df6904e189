"""A transformer on several ranks (DDP over gloo); its script needs no word about gpudiag.

Run it so:

    gpudiag run -- torchrun --standalone --nproc-per-node 2 ddp_transformer.py
"""

from __future__ import annotations

from itertools import islice

import tiny
import torch
from misbehave import Misbehaviour
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    """Train for `--steps` steps."""
    told = tiny.parse("Train a small transformer on several ranks.")
    rank = tiny.start()
    faults = Misbehaviour(told, rank)
    model = tiny.Transformer()
    faults.attach(model.blocks[0])
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)
    batches = tiny.forever(tiny.loader(told, faults))
    for step, tokens in enumerate(islice(batches, told.steps), start=1):
        optimizer.zero_grad()
        loss = tiny.loss_of(ddp, tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
        optimizer.step()
        tiny.report(told, rank, step, loss)
        faults.step(step, loss)
    tiny.finish()


if __name__ == "__main__":
    main()
