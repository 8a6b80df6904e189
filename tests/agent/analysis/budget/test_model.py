"""Sizes beside what is published of each model."""

from __future__ import annotations

import pytest

from gpudiag.agent.analysis.budget.model import Shape, read
from gpudiag.probes.errors import UsageError
from tests.agent.analysis.budget import configs


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (configs.GPT3, 175.0),
        (configs.LLAMA2_7B, 6.74),
        (configs.LLAMA3_70B, 70.6),
        (configs.MIXTRAL, 46.7),
        (configs.DEEPSEEK_V3, 671.0),
        (configs.BERT_LARGE, 0.335),
        (configs.T5_3B, 2.85),
        (configs.QWEN3_MOE, 30.5),
        (configs.QWEN15_MOE, 14.3),
        (configs.GEMMA_7B, 8.54),
        (configs.MISTRAL_7B, 7.24),
    ],
)
def test_parameters_are_those_published(config, billions):
    assert read(config).parameters / 1e9 == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize(
    ("config", "size"),
    [
        (configs.LLAMA3_70B, 320 * 1024),
        (configs.LLAMA2_7B, 512 * 1024),
        # "70.272 KB": DeepSeek-V3's hardware paper (arXiv 2505.09343), table 1.
        (configs.DEEPSEEK_V3, 70_272),
        (configs.MIXTRAL, 128 * 1024),
        (configs.BERT_LARGE, 0),
    ],
)
def test_the_cache_of_a_token_is_that_published(config, size):
    assert read(config).cache(2.0) == size


def test_a_sliding_window_holds_an_eighth_of_32k_tokens():
    """As published of Mistral 7B (arXiv 2310.06825, section 2)."""
    whole = read({**configs.MISTRAL_7B, "sliding_window": None}).cache(2.0, 32_768)
    windowed = read({**configs.MISTRAL_7B, "sliding_window": 4096}).cache(2.0, 32_768)
    assert windowed == whole / 8


@pytest.mark.parametrize(
    ("told", "layers"),
    [
        ({"layer_types": ["sliding_attention", "full_attention"] * 16}, 16),
        ({"sliding_window_pattern": 6}, 27),
        ({"model_type": "gemma2"}, 16),
        ({"use_sliding_window": True, "max_window_layers": 28}, 4),
        ({"use_sliding_window": False}, 0),
        ({"sliding_window": None}, 0),
        ({}, 32),
    ],
)
def test_the_layers_within_a_window_are_those_the_configuration_tells(told, layers):
    assert read({**configs.MISTRAL_7B, "sliding_window": 4096, **told}).windowed_layers == layers


def test_a_short_request_fills_no_window():
    shape = read({**configs.MISTRAL_7B, "sliding_window": 4096})
    assert shape.cache(2.0, 100) == 100 * shape.cache(2.0)


def test_a_count_alone_is_a_model_too():
    assert Shape(given=1.8e12).parameters == 1.8e12


def test_the_text_part_of_a_model_with_more_counts():
    assert read({"model_type": "x", "text_config": configs.LLAMA2_7B}).layers == 32


def test_a_text_part_that_is_null_is_none():
    assert read({**configs.LLAMA2_7B, "text_config": None}) == read(configs.LLAMA2_7B)


@pytest.mark.parametrize(("newer", "heads"), [(False, 1), (True, 8)])
def test_one_head_for_all_queries(newer, heads):
    falcon = {"multi_query": True, "new_decoder_architecture": newer, "num_kv_heads": 8}
    assert read({**configs.LLAMA2_7B, **falcon}).kv_heads == heads


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "no hidden_size"),
        ({"hidden_size": "big"}, "is no number"),
        ({"hidden_size": float("inf")}, "is no number"),
        ({**configs.LLAMA2_7B, "num_hidden_layers": -3}, "must be above 0"),
    ],
)
def test_what_has_no_sizes_is_told(config, why):
    with pytest.raises(UsageError, match=why):
        read(config)
