from gpudiag.agent.rules.contract import Healthy, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "profiling-source-broken"
SM = 'gpudiag_gpu_sm_active_ratio{uuid="GPU-a"}'
USED = 'gpudiag_gpu_utilization_ratio{uuid="GPU-a"}'
WATTS = 'gpudiag_gpu_power_watts{uuid="GPU-a"}'


def test_zero_activity_on_a_busy_gpu_is_told_with_its_power() -> None:
    said = diagnoses(judge(SYMPTOM, {SM: "0.8x5 0x10", USED: "0.99x15", WATTS: "640x15"}))
    assert "640 W" in said["GPU-a"].summary


def test_one_busy_sm_is_a_true_reading() -> None:
    assert judge(SYMPTOM, {SM: "0.0068x20", USED: "1x20"}) == [Healthy(subject(uuid="GPU-a"))]


def test_an_idle_gpu_says_nothing() -> None:
    assert judge(SYMPTOM, {SM: "0x20", USED: "0x20"}) == []


def test_a_gpu_without_profiling_is_not_judged() -> None:
    assert judge(SYMPTOM, {USED: "0.99x20"}) == []


def test_a_lag_between_the_sources_is_no_contradiction() -> None:
    assert judge(SYMPTOM, {SM: "0x15", USED: "0x11 0.99x3"}) == []
