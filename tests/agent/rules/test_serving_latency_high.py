import pytest

from gpudiag.agent.rules.contract import Diagnosis, Healthy
from tests.agent.rules.seam import judge

SYMPTOM = "serving-latency-high"
A = (("server", "a"),)
BUCKET = 'gpudiag_serving_ttft_seconds_bucket{{server="a",le="{}"}}'


def ttft(rows: int, fast: int = 20, after: int = 0) -> dict[str, str]:
    """Half of the time all are fast, then `after` of 20 are: by rows of ten requests."""
    end = fast * rows
    return {
        BUCKET.format("0.1"): f"0+{fast}x{rows} {end + after}+{after}x{rows}",
        BUCKET.format("1"): f"0+20x{2 * rows + 1}",
        BUCKET.format("+Inf"): f"0+20x{2 * rows + 1}",
    }


@pytest.mark.parametrize("every", [5.0, 15.0, 60.0])
def test_a_median_that_moved_is_told_at_any_interval(every: float) -> None:
    (said,) = judge(SYMPTOM, ttft(int(3000 / every)), every=every)
    assert isinstance(said, Diagnosis)
    assert said.evidence[0].labels == {"quantile": "0.5"}


def test_a_median_that_held_is_healthy() -> None:
    assert judge(SYMPTOM, ttft(100, after=19), every=30.0) == [Healthy(A)]


def test_without_a_past_there_is_nothing_to_compare_with() -> None:
    assert judge(SYMPTOM, ttft(4), every=15.0) == []


def test_what_was_not_seen_is_missing() -> None:
    (said,) = judge(SYMPTOM, ttft(100), every=30.0)
    assert isinstance(said, Diagnosis)
    assert said.cause == "undetermined"
    assert any("throttle" in one for one in said.missing)
