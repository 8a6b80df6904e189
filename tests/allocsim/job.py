"""A training job over the simulated allocator: weights, activations, gradients, AdamW."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.allocsim.allocator import Allocator
from tests.allocsim.blocks import Block
from tests.allocsim.snapshot import NEWEST, Snapshot, Version, snapshot
from tests.allocsim.stacks import CALLS, ENGINE, MAIN, STEP, Stack, backward_of, called, torch, user

CUBLAS_WORKSPACE = 8_519_680
LINEAR = (torch("nn/modules/linear.py", 134, "forward"), *CALLS)
GPT = (*CALLS, user("model.py", 141, "forward"), *CALLS, *STEP)
LAYER = (*CALLS, user("model.py", 97, "forward"), *GPT)
LOAD = (
    torch("nn/modules/module.py", 1370, "convert"),
    torch("nn/modules/module.py", 957, "_apply"),
    torch("nn/modules/module.py", 1384, "to"),
    user("train.py", 52, "main"),
    user("train.py", 140, "<module>"),
)
INIT_STATE = (
    torch("optim/adam.py", 175, "_init_group"),
    torch("optim/adam.py", 237, "step"),
    torch("optim/optimizer.py", 533, "wrapper"),
    user("train.py", 92, "train_step"),
    *MAIN,
)
FOREACH = (
    torch("optim/adam.py", 662, "_multi_tensor_adam"),
    torch("optim/adam.py", 949, "adam"),
    *INIT_STATE[1:],
)
GELU = torch("nn/modules/activation.py", 816, "forward")
NORM = torch("nn/modules/normalization.py", 229, "forward")
LOSS = (torch("nn/functional.py", 3494, "cross_entropy"), user("train.py", 80, "train_step"), *MAIN)


class Op(NamedTuple):
    """A kept activation: `share` of one layer's input in size, and the frames that make it."""

    share: float
    frames: Stack


OPS = (
    Op(1, (NORM, *CALLS, user("model.py", 88, "forward"), *LAYER)),
    Op(3, (*LINEAR, user("model.py", 61, "forward"), *LAYER)),
    Op(1, (torch("nn/functional.py", 6089, "sdpa"), user("model.py", 66, "forward"), *LAYER)),
    Op(4, (*LINEAR, user("model.py", 33, "forward"), *LAYER)),
    Op(4, (GELU, *CALLS, user("model.py", 34, "forward"), *LAYER)),
    Op(1, (*LINEAR, user("model.py", 35, "forward"), *LAYER)),
)
SCRATCH = (user("model.py", 65, "forward"), *LAYER)

Hook = Callable[["Job"], None]


@dataclass
class Job:
    """`hooks` run at "start" (once), "forward", "backward" and "end" of every step.

    `length` gives a step's tokens; one layer's input has `length * width * 4` bytes. The first
    step makes AdamW's states. With `native` the stacks have C++ frames as stacks="all" gives.
    """

    allocator: Allocator = field(default_factory=Allocator)
    layers: int = 3
    width: int = 512
    length: Callable[[int], int] = lambda step: 512
    native: bool = False
    step_us: int = 250_000
    hooks: dict[str, list[Hook]] = field(default_factory=lambda: defaultdict(list))
    number: int = 0
    weights: list[Block] = field(default_factory=list)
    gradients: list[Block] = field(default_factory=list)
    states: list[Block] = field(default_factory=list)
    saved: list[Block] = field(default_factory=list)
    kept: list[Block] = field(default_factory=list)
    keep_graph: bool = False

    def alloc(self, size: int, frames: Stack, stream: int = 0) -> Block:
        """A block asked for by these Python frames."""
        return self.allocator.malloc(size, called(*frames, native_too=self.native), stream)

    def free(self, blocks: list[Block], frames: Stack = STEP) -> None:
        """Free all of `blocks`, the last first, and empty the list."""
        while blocks:
            self.allocator.free(blocks.pop(), called(*frames, native_too=self.native))

    def start(self) -> Job:
        """Load the model: one block per parameter, the embedding first."""
        square = self.width * self.width * 4
        sizes = [32_000 * self.width * 4]
        for _ in range(self.layers):
            sizes += [3 * square, square, 4 * square, 4 * square, 4 * self.width, 4 * self.width]
        self.weights = [self.alloc(size, LOAD) for size in sizes]
        self._run("start")
        return self

    def step(self) -> None:
        """Forward, loss, backward, AdamW, zero_grad."""
        recorder = self.allocator.recorder
        recorder.annotate(f"ProfilerStep#{self.number}", "START")
        began = recorder.clock.us
        self._forward()
        self._run("forward")
        self._backward()
        self._run("backward")
        self._optimize()
        self.number += 1
        self._run("end")
        recorder.annotate(f"ProfilerStep#{self.number - 1}", "END")
        recorder.clock.us = max(recorder.clock.us, began + self.step_us)

    def steps(self, count: int) -> Job:
        for _ in range(count):
            self.step()
        return self

    def snapshot(self, version: Version = NEWEST) -> Snapshot:
        return snapshot(self.allocator, version=version)

    def _forward(self) -> None:
        size = self.length(self.number) * self.width * 4
        for _ in range(self.layers):
            for op in OPS:
                self.saved.append(self.alloc(int(size * op.share), op.frames))
            self.free([self.alloc(2 * size, SCRATCH)])
        self.saved.append(self.alloc(size * 4, LOSS))
        self.saved.append(self.alloc(4, LOSS))

    def _backward(self) -> None:
        if self.keep_graph:
            self.kept += self.saved
            self.saved = []
        pace = -(-len(self.saved) // len(self.weights))
        for weight in reversed(self.weights):
            done, self.saved = self.saved[len(self.saved) - pace :], self.saved[:-pace]
            self.free(done, ENGINE if self.native else ())
            stack = backward_of("AddmmBackward0", native_too=self.native)
            self.gradients.append(self.allocator.malloc(weight.requested, stack))
        self.free(self.saved, ENGINE if self.native else ())

    def _optimize(self) -> None:
        recorder = self.allocator.recorder
        recorder.annotate("Optimizer.step#AdamW.step", "START")
        if not self.states:
            for weight in self.weights:
                self.states += [self.alloc(weight.requested, INIT_STATE) for _ in range(2)]
        self.free([self.alloc(weight.requested, FOREACH) for weight in self.weights[1:]], FOREACH)
        recorder.annotate("Optimizer.step#AdamW.step", "END")
        recorder.annotate("Optimizer.zero_grad#AdamW.zero_grad", "START")
        self.free(self.gradients)
        recorder.annotate("Optimizer.zero_grad#AdamW.zero_grad", "END")

    def _run(self, phase: str) -> None:
        for hook in self.hooks[phase]:
            hook(self)
