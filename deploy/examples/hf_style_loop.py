"""A trainer's loop by hand: gradient accumulation, evaluation, checkpoints, and `gd.attach`.

Run it alone or on several ranks:

    python hf_style_loop.py --out /tmp/checkpoints
    torchrun --standalone --nproc-per-node 2 hf_style_loop.py

It lets the agent ask for a checkpoint, and for smaller micro-batches when memory runs short.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path

import tiny
import torch
import torch.distributed as dist
from misbehave import Misbehaviour
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import gpudiag.probes.torch as gd


class Trainer:
    """Trains, and evaluates and saves every so many steps."""

    def __init__(self, told: argparse.Namespace, rank: int, model: tiny.Transformer) -> None:
        self._told = told
        self._rank = rank
        self._faults = Misbehaviour(told, rank)
        self._faults.attach(model.blocks[0])
        self._bare = model
        self._model: nn.Module = DistributedDataParallel(model) if dist.is_initialized() else model
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self._schedule = torch.optim.lr_scheduler.LinearLR(self._optimizer, 0.1, total_iters=20)
        self._loader = tiny.loader(told, self._faults)
        self._held_out = DataLoader(tiny.Counting(32), tiny.BATCH)
        self._parts = told.accumulate
        self._step = 0
        gd.attach(model, self._optimizer, self._loader)
        gd.on("checkpoint", self.save)
        gd.on("reduce_micro_batch", self.reduce_micro_batch)

    def train(self) -> None:
        """Steps of `--accumulate` micro-batches each."""
        batches = tiny.forever(self._loader)
        for step in range(1, self._told.steps + 1):
            self._step = step
            parts = [self._micro_batch(next(batches), part) for part in range(self._parts)]
            loss = torch.stack(parts).sum()
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
            self._optimizer.step()
            self._schedule.step()
            self._optimizer.zero_grad()
            gd.observe(loss=loss)
            tiny.report(self._told, self._rank, step, loss)
            if step % self._told.eval_every == 0:
                tiny.log.info("step %d held out %r", step, self.evaluate())
            if step % self._told.save_every == 0 and self._rank == 0:
                self.save()

    @torch.no_grad()
    def evaluate(self) -> float:
        """Mean loss on what is held out."""
        self._bare.eval()
        with gd.phase("eval"):
            losses = [tiny.loss_of(self._bare, b["input_ids"]) for b in self._held_out]
        self._bare.train()
        return torch.stack(losses).mean().item()

    def save(self) -> None:
        """Write the model and the optimizer; the old file stays until the new one is whole."""
        path = Path(self._told.out) / "checkpoint.pt"
        state = {"model": self._bare.state_dict(), "optimizer": self._optimizer.state_dict()}
        torch.save({**state, "step": self._step}, path.with_suffix(".part"))
        path.with_suffix(".part").replace(path)

    def reduce_micro_batch(self) -> bool:
        """Twice as many micro-batches of half the size; False where they are of one sample."""
        if self._parts * 2 > tiny.BATCH:
            return False
        self._parts *= 2
        return True

    def _micro_batch(self, tokens: Tensor, part: int) -> Tensor:
        # Gradients go to the other ranks once a step, with the last micro-batch.
        last = part == self._parts - 1
        ddp = self._model if isinstance(self._model, DistributedDataParallel) else None
        with ddp.no_sync() if ddp and not last else contextlib.nullcontext():
            loss = tiny.loss_of(self._model, tokens) / self._parts
            loss.backward()
        self._faults.step(self._step, loss)
        return loss.detach()


def main() -> None:
    """Train for `--steps` steps."""
    told = tiny.parse(
        "Train with gradient accumulation, evaluation and checkpoints.",
        accumulate=2, eval_every=50, save_every=50, out="",
    )  # fmt: skip
    rank = tiny.start()
    with tempfile.TemporaryDirectory() as folder:
        told.out = told.out or folder
        Trainer(told, rank, tiny.Transformer()).train()
    tiny.finish()


if __name__ == "__main__":
    main()
