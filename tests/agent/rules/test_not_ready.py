from gpudiag.agent.rules.contract import Diagnosis, Healthy
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "not-ready"
UP = 'gpudiag_serving_up{server="a"}'
READY = 'gpudiag_serving_ready{server="a"}'
LOADED = 'gpudiag_serving_model_loaded{server="a"}'
CANARY = 'gpudiag_canary_ok{server="a"}'
USED = 'gpudiag_gpu_memory_used_bytes{uuid="GPU-0"}'
A = (("server", "a"),)


def test_a_model_that_was_there_and_is_gone_is_told_soon() -> None:
    found = diagnoses(judge(SYMPTOM, {UP: "1x30", LOADED: "1x20 0x10"}))
    assert found["a"].cause == "model-not-loaded"


def test_a_first_load_is_given_time() -> None:
    assert judge(SYMPTOM, {UP: "1x20", LOADED: "0x20"}) == [Healthy(A)]


def test_a_gpu_that_fills_is_loading_however_long() -> None:
    series = {UP: "1x90", LOADED: "0x90", USED: "1e9+8e8x90"}
    assert judge(SYMPTOM, series) == [Healthy(A)]


def test_one_failed_canary_is_no_news() -> None:
    assert judge(SYMPTOM, {UP: "1x30", CANARY: "1x29 0"}) == [Healthy(A)]


def test_unready_without_a_reason_names_what_would_tell() -> None:
    (said,) = judge(SYMPTOM, {UP: "1x60", READY: "0x60"})
    assert isinstance(said, Diagnosis)
    assert said.cause == "undetermined"
    assert LOADED.partition("{")[0] in said.missing
