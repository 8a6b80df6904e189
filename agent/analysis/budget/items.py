"""Each thing that takes memory on one GPU: its bytes, how long it lives, when it goes."""

from __future__ import annotations

import msgspec

from gpudiag.agent.analysis.budget.activations import kept
from gpudiag.agent.analysis.budget.layout import BYTES, Layout, Optimizer
from gpudiag.agent.analysis.budget.model import Shape

GIB = 2.0**30
CONTEXT = 1.0 * GIB
"""CUDA context, kernels' code, cuBLAS workspaces: 0.5 to 1.5 GiB measured on A100 and H100."""

COMMUNICATION = 1.0 * GIB
"""NCCL's channels and buffers: some 4 MiB a channel and peer; frameworks report 0.5 to 2 GiB."""

BUCKET = 25 * 2.0**20
"""Of DistributedDataParallel: `bucket_cap_mb`, two of them under way."""

STATE: dict[Optimizer, float] = {"adamw": 8.0, "adamw-8bit": 2.0, "adafactor": 0.0, "sgd": 4.0}
"""Bytes of state a parameter beside a master copy: two fp32 moments, two of 8 bit, factored to
almost nothing, one fp32 momentum."""

MASTER = 4.0
"""An fp32 copy of the parameters where they are kept in 16 bits (ZeRO, arXiv 1910.02054, 3.1)."""


class Item(msgspec.Struct, frozen=True):
    """One line of the budget, bytes on one GPU."""

    name: str
    bytes: float
    lives: str
    released: str


class NotKnown(msgspec.Struct, frozen=True):
    """An item that cannot be told of this model, and what would tell it."""

    name: str
    missing: str


def items(shape: Shape, layout: Layout) -> list[Item | NotKnown]:
    """The budget of the GPU that holds most: the first stage of a pipeline."""
    return _serving(shape, layout) if layout.serving else _training(shape, layout)


def parameters(shape: Shape, layout: Layout) -> float:
    """Parameters that one GPU works on: experts are parted by ep, all by tp, layers by pp.

    The first stage of a pipeline has the input embedding whole.
    """
    if not shape.known:
        return shape.given / layout.tp / layout.pp
    ends = shape.embedding if layout.pp == 1 else float(shape.vocabulary * shape.hidden)
    return (ends + _body(shape, layout) / layout.pp) / layout.tp


def _body(shape: Shape, layout: Layout) -> float:
    return shape.parameters - shape.embedding - shape.routed + shape.routed / layout.ep


def _training(shape: Shape, layout: Layout) -> list[Item | NotKnown]:
    size = BYTES[layout.precision]
    master = MASTER if layout.precision != "fp32" else 0.0
    state = STATE[layout.optimizer] + master
    weights, gradients, states = (_held(shape, layout, stage) for stage in (3, 2, 1))
    return [
        Item("parameters", weights * size, "the whole run", "at its end"),
        Item("gradients", gradients * max(size, 2.0), "backward to step", "by zero_grad"),
        Item("optimizer state", states * state, "from the first step on", "at its end"),
        activations(shape, layout),
        Item("temporary buffers", CONTEXT, "the whole run", "at its end"),
        Item("communication buffers", _communication(shape, layout), "the whole run", "at its end"),
    ]


def _held(shape: Shape, layout: Layout, stage: int) -> float:
    """Parameters whose weights, gradients or state one GPU holds, sharded from `stage` on."""
    if layout.zero < stage:
        return parameters(shape, layout)
    # An expert has dp / ep copies to be sharded over: all in all a dp-th, whatever ep is.
    return parameters(shape, msgspec.structs.replace(layout, ep=1)) / layout.dp


def _communication(shape: Shape, layout: Layout) -> float:
    if layout.gpus == 1:
        return 0.0
    if layout.dp == 1:
        return COMMUNICATION
    if layout.zero < 3:
        return COMMUNICATION + 2.0 * BUCKET
    if not shape.known:
        return COMMUNICATION
    # Two layers are gathered whole: the one at work and the one fetched ahead.
    layer = _body(shape, layout) / (shape.layers + shape.decoder_layers) / layout.tp
    return COMMUNICATION + 2.0 * layer * BYTES[layout.precision]


def activations(shape: Shape, layout: Layout) -> Item | NotKnown:
    """What forward keeps for backward; of a number of parameters alone nothing can be said."""
    if not shape.known:
        missing = "the model's config.json: a number of parameters says nothing of activations"
        return NotKnown("activations", missing)
    return Item("activations", kept(shape, layout), "forward to backward", "as backward passes")


def _serving(shape: Shape, layout: Layout) -> list[Item | NotKnown]:
    weights = parameters(shape, layout) * BYTES[layout.precision]
    communication = COMMUNICATION if layout.gpus > 1 else 0.0
    return [
        Item("parameters", weights, "as long as it serves", "at its end"),
        cache(shape, layout),
        _passing(shape, layout),
        Item("temporary buffers", CONTEXT, "as long as it serves", "at its end"),
        Item("communication buffers", communication, "as long as it serves", "at its end"),
    ]


def cache(shape: Shape, layout: Layout) -> Item | NotKnown:
    """The KV cache of all requests: tensor parallelism parts it by key-value heads, no further;
    a latent cache (DeepSeek) is whole on every GPU of the group.
    """
    if not shape.known:
        return NotKnown("KV cache", "the model's config.json: layers, key-value heads")
    held = shape.cache(BYTES[layout.cache_precision], layout.kv_length)
    parted = 1 if shape.kv_rank else min(layout.tp, max(1, shape.kv_heads))
    share = held * layout.concurrency / parted / layout.pp
    return Item("KV cache", share, "a request", "when the request ends")


def _passing(shape: Shape, layout: Layout) -> Item | NotKnown:
    """What one pass of `sequence` tokens holds at its widest: a layer's feed-forward, and logits
    of the requests at hand.
    """
    if not shape.known:
        return NotKnown("activations", "the model's config.json")
    width = max(shape.feed_forward, shape.expert_feed_forward) * 2.0 + 4.0 * shape.hidden
    held = layout.sequence * width / layout.tp * BYTES[layout.precision]
    logits = 4.0 * layout.concurrency * shape.vocabulary / layout.tp
    return Item("activations", held + logits, "a pass", "at its end")
