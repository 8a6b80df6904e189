"""What a forward pass keeps on one GPU until backward has used it."""

from __future__ import annotations

from gpudiag.agent.analysis.budget.layout import BYTES, Layout
from gpudiag.agent.analysis.budget.model import Shape


def kept(shape: Shape, layout: Layout) -> float:
    """Bytes, after Korthikanti et al. (arXiv 2205.05198), section 4 and equations 1 to 5.

    A layer of GPT keeps sbh(10 + 24/t + 5as/(ht)), in 16 bits; here the 24 is counted of the
    model's own widths, and what has no dropout keeps no masks. Selective recomputation (and
    attention that never writes its scores, as FlashAttention) drops the last term, full keeps 2sbh
    a layer and the layer at work. Of a pipeline the first stage holds as many micro-batches as
    there are stages, so all layers' worth; the last holds one, and the logits, 4 bytes each.
    """
    tokens = layout.sequence * layout.micro_batch
    # Training in fp8 still keeps what goes between the matrix products in 16 bits.
    unit = tokens * max(BYTES[layout.precision], 2.0) / 2.0
    held = unit * _layers(shape, layout)
    logits = 4.0 * tokens * shape.vocabulary / layout.tp
    return held + logits if layout.pp == 1 else max(held, held / layout.pp + logits)


def _layers(shape: Shape, layout: Layout) -> float:
    """Bytes a token of all layers, 2 a value."""
    layers = shape.layers + shape.decoder_layers
    attention = _attention(shape, layout.tp)
    if layout.recompute != "selective":
        attention += _scores(shape, layout)
    every = attention * (layers + shape.decoder_layers) + _feed_forward(shape, layout.tp)
    if layout.recompute == "full":
        return 2.0 * shape.hidden * layers + every / layers
    return every


def _attention(shape: Shape, tp: int) -> float:
    """The norm's and the projection's input on every GPU; queries, keys, values, output parted."""
    whole = (4.0 if shape.gated else 5.0) * shape.hidden
    query = shape.heads * (shape.head + shape.rope)
    if shape.kv_rank:
        return whole + 2.0 * (2.0 * query + 2.0 * shape.heads * shape.value_head) / tp
    return whole + 2.0 * (2.0 * query + 2.0 * shape.kv_heads * shape.head) / tp


def _scores(shape: Shape, layout: Layout) -> float:
    """The softmax's output; with dropout its mask and its output beside it."""
    return (2.0 if shape.gated else 5.0) * shape.heads * layout.sequence / layout.tp


def _feed_forward(shape: Shape, tp: int) -> float:
    """Bytes a token of all layers: two tensors of the inner width, gated four."""
    tensors = 8.0 if shape.gated else 4.0
    whole = (4.0 if shape.gated else 5.0) * shape.hidden
    layers = shape.layers + shape.decoder_layers
    routed = shape.experts_a_token * shape.expert_feed_forward + shape.shared_feed_forward
    # Each expert that a token goes to gets a copy of it.
    copies = 2.0 * shape.experts_a_token * shape.hidden
    expert = tensors * routed / tp + copies
    dense = tensors * shape.feed_forward / tp
    experts = shape.expert_layers
    return whole * layers + expert * experts + dense * (layers - experts)
