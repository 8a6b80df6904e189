"""A trainer's loop by hand: gradient accumulation, evaluation, checkpoints, and `gd.attach`.

Run it alone or on several ranks:

    python hf_style_loop.py --out /tmp/checkpoints
    torchrun --standalone --nproc-per-node 2 hf_style_loop.py

Started again with the same `--out`, it goes on from the newest checkpoint. It lets the agent ask
for a checkpoint, and for smaller micro-batches when memory runs short.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import tempfile
from pathlib import Path
from typing import Any

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
        self._kept: dict[str, Any] = {
            "model": model,
            "optimizer": self._optimizer,
            "schedule": self._schedule,
        }
        self._loader = tiny.loader(told, self._faults)
        self._held_out = DataLoader(tiny.Counting(32), tiny.BATCH)
        self._parts = told.accumulate
        self._path = Path(told.out) / "checkpoint.pt"
        self._step = 0
        gd.attach(model, self._optimizer, self._loader)
        gd.on("checkpoint", self.save)
        gd.on("reduce_micro_batch", self.reduce_micro_batch)
        if self._path.exists():
            self._resume()

    def train(self) -> None:
        """Steps of `--accumulate` batches of the loader each, at first as many micro-batches."""
        batches = tiny.forever(self._loader)
        seen = self._step * self._told.accumulate % len(self._loader)
        batches = itertools.islice(batches, seen, None)
        for step in range(self._step + 1, self._told.steps + 1):
            self._step = step
            tokens = torch.cat([next(batches) for _ in range(self._told.accumulate)])
            losses = [self._micro_batch(p, n) for n, p in enumerate(tokens.chunk(self._parts))]
            loss = torch.stack(losses).sum()
            torch.nn.utils.clip_grad_norm_(self._model.parameters(), 1.0)
            self._optimizer.step()
            self._schedule.step()
            self._optimizer.zero_grad()
            gd.observe(loss=loss)
            tiny.report(self._told, self._rank, step, loss)
            if step % self._told.eval_every == 0:
                tiny.log.info("step %d held out %r", step, self.evaluate())
            if step % self._told.save_every == 0:
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
        """Rank 0 writes all that goes on; the old file stays until the new one is whole."""
        if self._rank != 0:
            return
        state = {name: part.state_dict() for name, part in self._kept.items()}
        torch.save({**state, "step": self._step}, self._path.with_suffix(".part"))
        self._path.with_suffix(".part").replace(self._path)

    def reduce_micro_batch(self, factor: float) -> bool:
        """Micro-batches smaller by `factor` and so many more of them; False where that is none."""
        parts, samples = self._parts * factor, tiny.BATCH * self._told.accumulate
        if parts < 1 or samples % parts != 0:
            return False
        self._parts = int(parts)
        return True

    def _resume(self) -> None:
        saved = torch.load(self._path)
        for name, part in self._kept.items():
            part.load_state_dict(saved[name])
        self._step = saved["step"]
        # What the agent asked for was saved before the schedule took its step.
        while self._schedule.last_epoch < self._step:
            self._schedule.step()
        tiny.log.info("rank %d resumes after step %d", self._rank, self._step)

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
