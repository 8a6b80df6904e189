"""Reinforcement learning in phases: roll out, score, compare with a reference, update.

Run it alone or on several ranks:

    python rl_phases.py
    gpudiag run -- torchrun --standalone --nproc-per-node 2 rl_phases.py

`gd.phase` tells the phases apart; how long each takes shows beside the step.
"""

from __future__ import annotations

import argparse
import copy

import tiny
import torch
import torch.distributed as dist
from misbehave import Misbehaviour
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import gpudiag.probes.torch as gd

PROMPT = 4
NEW = 12


@torch.no_grad()
def rollout(policy: nn.Module, prompts: Tensor) -> Tensor:
    """The prompts, (batch, length), with `NEW` tokens drawn after each."""
    tokens = prompts
    for _ in range(NEW):
        odds = functional.softmax(policy(tokens)[:, -1], dim=-1)
        tokens = torch.cat([tokens, torch.multinomial(odds, 1)], dim=1)
    return tokens


def reward(tokens: Tensor) -> Tensor:
    """How often each sequence counts on by one, 0 to 1, less the mean of all."""
    counts = (tokens[:, 1:] - tokens[:, :-1] == 1).float().mean(dim=1)
    return counts - counts.mean()


def log_odds(model: nn.Module, tokens: Tensor) -> Tensor:
    """Log probability of each new token, (batch, NEW)."""
    logits = functional.log_softmax(model(tokens)[:, PROMPT - 1 : -1], dim=-1)
    return logits.gather(-1, tokens[:, PROMPT:, None]).squeeze(-1)


def train(told: argparse.Namespace, rank: int) -> None:
    """`--steps` updates of the policy; every one has all phases."""
    faults = Misbehaviour(told, rank)
    policy = tiny.Transformer()
    reference = copy.deepcopy(policy).requires_grad_(False)
    faults.attach(policy.blocks[0])
    trained: nn.Module = DistributedDataParallel(policy) if dist.is_initialized() else policy
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3)
    gd.attach(policy, optimizer)
    batches = tiny.forever(tiny.loader(told, faults))
    for step in range(1, told.steps + 1):
        with gd.phase("rollout"):
            tokens = rollout(policy, next(batches)[:, :PROMPT])
        with gd.phase("reward"):
            advantage = reward(tokens)
        with gd.phase("reference"), torch.no_grad():
            expected = log_odds(reference, tokens)
        with gd.phase("update"):
            found = log_odds(trained, tokens)
            loss = (0.01 * (found - expected) - advantage[:, None] * found).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        tiny.report(told, rank, step, loss)
        faults.step(step, loss)


def main() -> None:
    """Train for `--steps` steps."""
    told = tiny.parse("Train a policy in phases.")
    train(told, tiny.start())
    tiny.finish()


if __name__ == "__main__":
    main()
