"""Activations of models that are not GPT, counted tensor by tensor."""

from __future__ import annotations

import pytest

from gpudiag.agent.analysis.budget.activations import kept
from gpudiag.agent.analysis.budget.layout import Layout
from gpudiag.agent.analysis.budget.model import read
from tests.agent.analysis.budget import configs

TOKENS = 2048


def logits(shape):
    return 4.0 * TOKENS * shape.vocabulary


def test_gated_without_dropout():
    """Llama: 4 inputs, q, k, v and output, and 4 of the inner width, 2 bytes each."""
    shape = read(configs.LLAMA2_7B)
    a_token = 2 * (4 * 4096 + 4 * 4096 + 4 * 11008) * 32
    found = kept(shape, Layout(recompute="selective"))
    assert found == TOKENS * a_token + logits(shape)


def test_a_token_passes_its_own_experts_alone():
    shape = read(configs.MIXTRAL)
    attention = 4 * 4096 + 2 * 4096 + 2 * 1024
    a_token = 2 * (attention + 2 * 4096 + 2 * 4 * 14336) * 32
    found = kept(shape, Layout(recompute="selective"))
    assert found == TOKENS * a_token + logits(shape)


def test_latent_attention_keeps_keys_of_every_head():
    shape = read(configs.DEEPSEEK_V3)
    one, eight = (kept(shape, Layout(tp=tp, recompute="selective")) for tp in (1, 8))
    parted = 2 * (2 * 128 * 192 + 2 * 128 * 128) * 61
    parted += 8 * (9 * 2048 * 58 + 18432 * 3)
    assert one - eight == pytest.approx((TOKENS * parted + logits(shape)) * 7 / 8)


def test_the_last_stage_has_the_logits_and_one_micro_batch():
    shape = read(configs.LLAMA3_70B)
    whole, staged = (kept(shape, Layout(pp=pp, recompute="selective")) for pp in (1, 8))
    assert whole - staged == logits(shape)


@pytest.mark.parametrize(("precision", "times"), [("fp32", 2.0), ("fp16", 1.0), ("fp8", 1.0)])
def test_only_fp32_changes_what_is_kept(precision, times):
    shape = read(configs.LLAMA2_7B)
    half, other = (kept(shape, Layout(precision=p)) - logits(shape) for p in ("bf16", precision))
    assert other == half * times
