from gpudiag.agent.rules.contract import Diagnosis, Healthy
from tests.agent.rules.seam import judge

SYMPTOM = "serving-request-jitter"
BUCKET = 'gpudiag_serving_ttft_seconds_bucket{{server="a",le="{}"}}'


def ttft(after: int) -> dict[str, str]:
    """A hundred requests a row, all fast at first; then `after` of them are."""
    return {
        BUCKET.format("0.1"): f"0+100x100 {10000 + after}+{after}x60",
        BUCKET.format("5"): "0+100x161",
        BUCKET.format("+Inf"): "0+100x161",
    }


def test_a_tail_that_moved_alone_is_jitter() -> None:
    (said,) = judge(SYMPTOM, ttft(93), every=30.0)
    assert isinstance(said, Diagnosis)
    assert "p9" in said.summary


def test_where_the_middle_moved_too_it_is_latency() -> None:
    assert judge(SYMPTOM, ttft(20), every=30.0) == [Healthy((("server", "a"),))]


def test_thrash_is_seen_without_any_latency() -> None:
    series = {
        'gpudiag_serving_kv_cache_usage_ratio{server="a"}': "0.7x60 0.99x40",
        'gpudiag_serving_requests_running{server="a"}': "30x100",
        'gpudiag_serving_requests_waiting{server="a"}': "0x60 9x40",
        'gpudiag_serving_preemptions_total{server="a"}': "0x60 5+5x40",
        'gpudiag_serving_generation_tokens_total{server="a"}': "0+900x60 54500+500x40",
    }
    (said,) = judge(SYMPTOM, series, every=15.0)
    assert isinstance(said, Diagnosis)
    assert said.cause == "preemption-thrash"
