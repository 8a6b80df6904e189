"""Whether a model can be spread as a layout says at all."""

from __future__ import annotations

from gpudiag.agent.analysis.budget.layout import Layout
from gpudiag.agent.analysis.budget.model import Shape


def objection(shape: Shape, layout: Layout) -> str | None:
    """Why no framework could start it; None where nothing is against it."""
    if layout.dp % layout.ep:
        return f"ep {layout.ep} must divide dp {layout.dp}: experts are spread over those GPUs"
    if layout.ep > 1 and (not shape.experts or shape.experts % layout.ep):
        return f"ep {layout.ep} must divide the model's experts, which are {shape.experts}"
    if not shape.known:
        return None
    if shape.heads % layout.tp:
        return f"tp {layout.tp} must divide the model's {shape.heads} attention heads"
    layers = shape.layers + shape.decoder_layers
    if layers < layout.pp:
        return f"pp {layout.pp} is more stages than the model's {layers} layers"
    return None
