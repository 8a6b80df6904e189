"""A language model and data small enough for a CPU: what all the examples train."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from misbehave import Misbehaviour, add_flags
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

VOCABULARY = 64
LENGTH = 32
BATCH = 8

log = logging.getLogger("example")


class Counting(Dataset[dict[str, Tensor]]):
    """Sequences that count up by a stride: number `index` starts and strides as it says."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if not 0 <= index < self._size:
            raise IndexError(index)
        start, stride = index * 7 % VOCABULARY, 1 + index % 5
        return {"input_ids": (start + stride * torch.arange(LENGTH)) % VOCABULARY}


class Transformer(nn.Module):
    """Two causal blocks; (batch, length) token numbers to (batch, length, vocabulary) logits."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.position = nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, nhead=4, dim_feedforward=2 * width, dropout=0.0, batch_first=True
            )
            for _ in range(2)
        )
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        hidden = self.embedding(tokens) + self.position(torch.arange(length))
        for block in self.blocks:
            hidden = block(hidden, src_mask=mask, is_causal=True)
        logits: Tensor = self.head(hidden)
        return logits


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """Mean cross entropy of the next token."""
    logits = model(tokens)[:, :-1]
    return functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))


def parse(description: str, **defaults: Any) -> argparse.Namespace:
    """The flags that all examples share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2, help="of the loader; 0 for none")
    parser.add_argument("--log-every", type=int, default=10, metavar="STEPS")
    for name, value in defaults.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(value), default=value)
    add_flags(parser)
    return parser.parse_args()


def start() -> int:
    """Seed, log to standard output and join the other ranks, if there are any; gives the rank."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    torch.manual_seed(0)
    # Several ranks share a small machine, and the order of sums stays the same.
    torch.set_num_threads(1)
    if "RANK" not in os.environ:
        return 0
    dist.init_process_group("gloo")
    return dist.get_rank()


def finish() -> None:
    """Leave the other ranks."""
    if dist.is_initialized():
        dist.destroy_process_group()
    log.info("done")


def loader(told: argparse.Namespace, faults: Misbehaviour) -> DataLoader[dict[str, Tensor]]:
    """Each rank's share of the data, in an order that is always the same."""
    samples = Counting(4096)
    sampler: DistributedSampler[Any] | None = None
    if dist.is_initialized():
        sampler = DistributedSampler(samples, seed=0)
    dataset = faults.dataset(samples, BATCH, told.workers)
    return DataLoader(
        dataset,
        BATCH,
        sampler=sampler,
        num_workers=told.workers,
        persistent_workers=told.workers > 0,
        drop_last=True,
    )


def forever(batches: DataLoader[dict[str, Tensor]]) -> Iterator[Tensor]:
    """Token numbers of batch after batch, epoch after epoch."""
    while True:
        for batch in batches:
            yield batch["input_ids"]


def report(told: argparse.Namespace, rank: int, step: int, loss: Tensor) -> None:
    """The loss of every `--log-every`th step, with all its digits."""
    if step % told.log_every == 0:
        log.info("rank %d step %d loss %r", rank, step, loss.item())
