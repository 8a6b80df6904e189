import pytest

from gpudiag.agent.rules._answers import NUMBERS, WEIGHTS
from gpudiag.agent.rules.contract import Healthy
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "output-quality-abnormal"
LIKE = 'gpudiag_canary_similarity_ratio{{server="{}"}}'
HOW = 'gpudiag_serving_config_info{{server="{}",quantization="{}"}}'
NONFINITE = 'gpudiag_serving_nonfinite_total{server="a"}'


def test_a_quantised_copy_beside_a_good_one_is_unsuitable() -> None:
    series = {
        LIKE.format("a"): "0.6x20",
        LIKE.format("b"): "0.99x20",
        HOW.format("a", "int4"): "1x20",
    }
    found = diagnoses(judge(SYMPTOM, series))
    assert {name: said.cause for name, said in found.items()} == {"a": "quantization-unsuitable"}


def test_without_a_good_copy_it_is_less_sure_and_says_what_is_missing() -> None:
    found = diagnoses(judge(SYMPTOM, {LIKE.format("a"): "0.6x20", HOW.format("a", "int4"): "1x20"}))
    assert found["a"].missing


def test_values_that_are_not_finite_are_enough() -> None:
    assert diagnoses(judge(SYMPTOM, {NONFINITE: "0x10 9x10"}))["a"].cause == "numeric-corruption"


def test_one_is_not() -> None:
    assert judge(SYMPTOM, {NONFINITE: "0x10 1x10"}) == [Healthy((("server", "a"),))]


@pytest.mark.parametrize(
    "line", ["output: '!!!!!!!!!'", "logits contain NaN", "JSON compliant: nan"]
)
def test_lines_that_tell_of_numbers(line: str) -> None:
    assert NUMBERS.search(line)


@pytest.mark.parametrize("line", ["sha256 mismatch for model-3", "missing shards: 2 of 30"])
def test_lines_that_tell_of_weights(line: str) -> None:
    assert WEIGHTS.search(line)
