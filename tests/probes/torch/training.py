"""A small training loop for tests."""

from __future__ import annotations

import torch
from torch.utils.data import DataLoader

import gpudiag.probes.torch as gd


def data(workers: int = 0, samples: int = 32) -> DataLoader[torch.Tensor]:
    torch.manual_seed(1)
    return DataLoader([torch.randn(16) for _ in range(samples)], 8, num_workers=workers)  # type: ignore[arg-type]


def train(epochs: int = 3, workers: int = 0, compiled: bool = False) -> list[float]:
    """The losses of a seeded run of four steps an epoch."""
    loader = data(workers)
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    call = torch.compile(model, backend="aot_eager") if compiled else model
    losses = []
    for _ in range(epochs):
        for batch in loader:
            optimizer.zero_grad()
            with gd.phase("forward"):
                loss = call(batch).square().mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    return losses
