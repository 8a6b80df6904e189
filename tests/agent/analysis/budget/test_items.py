"""Items beside published figures; a GB is 1e9 bytes, as the papers count."""

from __future__ import annotations

import pytest

from gpudiag.agent.analysis.budget.items import Item, NotKnown, activations, items
from gpudiag.agent.analysis.budget.layout import Layout
from gpudiag.agent.analysis.budget.model import Shape, read
from tests.agent.analysis.budget import configs

STATES = ("parameters", "gradients", "optimizer state")


def told(shape, layout):
    return {item.name: item for item in items(shape, layout)}


def test_almost_two_trillion_parameters_in_bf16():
    found = told(Shape(given=1.8e12), Layout())
    assert found["parameters"].bytes == 3.6e12


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_on_64_gpus(stage, gigabytes):
    """ZeRO (arXiv 1910.02054), figure 1: 7.5 billion parameters, Adam, mixed precision."""
    found = told(Shape(given=7.5e9), Layout(dp=64, zero=stage))
    assert sum(found[name].bytes for name in STATES) / 1e9 == pytest.approx(gigabytes, abs=0.05)


@pytest.mark.parametrize(
    ("recompute", "factor"), [("none", 34 + 5 * 96 * 2048 / 12288), ("selective", 34), ("full", 2)]
)
def test_activations_of_a_layer(recompute, factor):
    """Korthikanti et al. (arXiv 2205.05198), table 2: GPT-3, sequence 2048, one GPU."""
    shape = read(configs.GPT3)
    item = activations(shape, Layout(recompute=recompute))
    assert isinstance(item, Item)
    unit = 2048 * 12288
    logits = 4.0 * 2048 * 50257
    own = (34 + 5 * 96 * 2048 / 12288) * unit if recompute == "full" else 0.0
    assert item.bytes == pytest.approx(96 * factor * unit + own + logits)


def test_tensor_parallelism_leaves_ten_of_34():
    whole, parted = (
        told(read(configs.GPT3), Layout(tp=t, recompute="selective"))["activations"] for t in (1, 8)
    )
    unit = 96 * 2048 * 12288
    logits = 4.0 * 2048 * 50257
    assert whole.bytes - parted.bytes == pytest.approx(unit * (24 - 3) + logits * 7 / 8)


@pytest.mark.parametrize(
    ("config", "tp", "gib"),
    [
        # 320 KiB a token, 16 requests of 4,096: 20 GiB, over 8 key-value heads.
        (configs.LLAMA3_70B, 1, 20.0),
        (configs.LLAMA3_70B, 8, 2.5),
        (configs.LLAMA3_70B, 16, 2.5),
    ],
)
def test_the_cache_is_parted_by_its_heads(config, tp, gib):
    found = told(read(config), Layout(serving=True, tp=tp))
    assert found["KV cache"].bytes / 2**30 == gib


def test_a_latent_cache_is_whole_on_every_gpu():
    one, eight = (told(read(configs.DEEPSEEK_V3), Layout(serving=True, tp=tp)) for tp in (1, 8))
    assert one["KV cache"].bytes == eight["KV cache"].bytes


def test_experts_are_parted_by_their_own_degree():
    found = told(read(configs.DEEPSEEK_V3), Layout(serving=True, dp=64, ep=64, precision="fp8"))
    # 671 billion with 654 routed: 17 and a 64th of those.
    assert found["parameters"].bytes / 1e9 == pytest.approx(27.3, abs=0.5)


def test_a_count_alone_says_nothing_of_activations():
    assert isinstance(told(Shape(given=7e9), Layout())["activations"], NotKnown)
    assert isinstance(told(Shape(given=7e9), Layout(serving=True))["KV cache"], NotKnown)


def test_an_encoder_has_no_cache():
    assert told(read(configs.BERT_LARGE), Layout(serving=True))["KV cache"].bytes == 0.0


@pytest.mark.parametrize(
    ("how", "each"),
    [
        ({"optimizer": "adamw"}, 12.0),
        ({"optimizer": "adamw-8bit"}, 6.0),
        ({"optimizer": "sgd"}, 8.0),
        ({"optimizer": "adafactor"}, 4.0),
        ({"precision": "fp32"}, 8.0),
    ],
)
def test_state_of_optimizers(how, each):
    assert told(Shape(given=1e9), Layout(**how))["optimizer state"].bytes == each * 1e9


@pytest.mark.parametrize("ep", [1, 8, 64])
def test_shards_of_all_gpus_are_the_whole_model(ep):
    shape = read(configs.DEEPSEEK_V3)
    found = told(shape, Layout(dp=64, ep=ep, zero=3))
    assert found["parameters"].bytes * 64 == pytest.approx(2.0 * shape.parameters)


def test_a_number_alone_gathers_no_whole_model():
    found = told(Shape(given=70e9), Layout(dp=64, zero=3))
    assert found["communication buffers"].bytes == 2**30


def test_the_first_stage_has_the_embedding_whole():
    shape = read(configs.LLAMA3_70B)
    stage = (shape.parameters - 2 * 128256 * 8192) / 4 + 128256 * 8192
    assert told(shape, Layout(pp=4))["parameters"].bytes == 2.0 * stage


@pytest.mark.parametrize(("config", "gb"), [(configs.GPT3, 350), (configs.LLAMA3_70B, 141)])
def test_weights_in_16_bits(config, gb):
    """GPT-3's 350 GB (arXiv 2106.09685, section 1); the files of Llama-3-70B."""
    found = told(read(config), Layout(serving=True, precision="fp16"))
    assert found["parameters"].bytes / 1e9 == pytest.approx(gb, rel=0.01)
