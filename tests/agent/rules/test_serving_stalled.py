import pytest

from gpudiag.agent.rules.contract import Diagnosis, Healthy, Unknown
from tests.agent.rules.seam import judge

SYMPTOM = "serving-stalled"
RUNNING = 'gpudiag_serving_requests_running{server="a"}'
WAITING = 'gpudiag_serving_requests_waiting{server="a"}'
STEPS = 'gpudiag_serving_engine_steps_total{server="a"}'
TOKENS = 'gpudiag_serving_generation_tokens_total{server="a"}'
CANARY = 'gpudiag_canary_ok{server="a"}'
A = (("server", "a"),)


@pytest.mark.parametrize("every", [1.0, 5.0, 15.0, 60.0])
def test_a_heartbeat_that_stops_under_load_is_a_hang_at_any_interval(every: float) -> None:
    rows = int(600 / every)
    series = {RUNNING: f"4x{rows * 2}", STEPS: f"0+9x{rows} {9 * rows}x{rows - 1}"}
    (said,) = judge(SYMPTOM, series, every=every)
    assert isinstance(said, Diagnosis)
    assert said.cause == "engine-hung"


def test_moving_however_full_is_not_stalled() -> None:
    series = {RUNNING: "256x60", WAITING: "900x60", STEPS: "0+1x60"}
    assert judge(SYMPTOM, series) == [Healthy(A)]


def test_without_a_heartbeat_both_are_named_and_what_settles_it() -> None:
    (said,) = judge(SYMPTOM, {RUNNING: "0x40", WAITING: "3x40", TOKENS: "70x40"})
    assert isinstance(said, Diagnosis)
    assert said.cause == "undetermined"
    assert {r.cause for r in said.rivals} == {"engine-hung", "scheduler-livelock"}
    assert "heartbeat" in said.missing[0]


def test_without_any_count_of_work_it_cannot_be_told() -> None:
    assert isinstance(judge(SYMPTOM, {RUNNING: "8x40", WAITING: "3x40"})[0], Unknown)


def test_an_answered_canary_means_that_the_figures_froze() -> None:
    (said,) = judge(SYMPTOM, {RUNNING: "8x40", STEPS: "70x40", CANARY: "1x40"})
    assert isinstance(said, Diagnosis)
    assert said.cause == "gauges-frozen"


def test_one_hung_engine_of_two_is_named() -> None:
    two = {
        f'gpudiag_serving_{m}{{server="a",engine="{e}"}}': v
        for e, steps in (("0", "0+9x40"), ("1", "70x40"))
        for m, v in (("requests_running", "8x40"), ("engine_steps_total", steps))
    }
    (said,) = judge(SYMPTOM, two)
    assert isinstance(said, Diagnosis)
    assert said.summary.startswith("Engine 1 of server a")
