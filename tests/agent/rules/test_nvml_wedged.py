import pytest

from gpudiag.agent.rules.contract import Diagnosis, Healthy, Unknown
from tests.agent.rules.seam import judge

SUCCESS = 'gpudiag_probe_success{probe="nvml"}'
LAST = 'gpudiag_probe_last_success_timestamp_seconds{probe="nvml"}'
POWER = 'gpudiag_gpu_power_watts{uuid="GPU-a"}'
CODE = "gpudiag_nvml_return_code"
SILENCE = {SUCCESS: "1x6 0x12", POWER: "300x6 stale", LAST: "0+10x6 60x12"}


def test_the_agents_own_word_is_enough() -> None:
    (said,) = judge("nvml-wedged", {"gpudiag_nvml_wedged": "0x3 1x2"})
    assert isinstance(said, Diagnosis)
    assert said.since == 40.0


def test_a_silence_that_nothing_explains_is_a_hang() -> None:
    (said,) = judge("nvml-wedged", SILENCE)
    assert isinstance(said, Diagnosis)
    assert said.since == 60.0


@pytest.mark.parametrize("code", [15, 16, 18, 9])
def test_a_driver_that_answers_with_an_error_does_not_hang(code: int) -> None:
    assert judge("nvml-wedged", {**SILENCE, CODE: f"0x6 {code}x12"}) == []


def test_unknown_error_is_the_agents_own_trouble() -> None:
    (said,) = judge("nvml-wedged", {**SILENCE, CODE: "0x6 999x12"})
    assert isinstance(said, Unknown)
    assert "restart the agent's container" in said.missing[0]


def test_a_driver_being_reloaded_does_not_hang() -> None:
    line = (65.0, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release")
    assert judge("nvml-wedged", SILENCE, [line]) == []


def test_a_probe_that_never_worked_has_no_driver_to_hang() -> None:
    assert judge("nvml-wedged", {SUCCESS: "0x20"}) == []


def test_fresh_readings_mean_health() -> None:
    assert judge("nvml-wedged", {SUCCESS: "1x20", POWER: "300x20"}) == [Healthy(())]


def test_a_blocked_task_of_the_driver_tells_of_it() -> None:
    line = "INFO: task nvidia-smi:31 blocked for more than 120 seconds."
    assert isinstance(judge("nvml-wedged", {}, [(9.0, line)])[0], Diagnosis)
    assert judge("nvml-wedged", {}, [(9.0, line.replace("nvidia-smi", "kworker"))]) == []


def test_gpu_series_that_all_end_are_unknown_not_healthy() -> None:
    (said,) = judge("nvml-wedged", {POWER: "300x6 stale", "gpudiag_host_load1": "1x30"})
    assert isinstance(said, Unknown)


def test_a_lost_gpu_beside_others_that_answer_is_no_hang() -> None:
    other = 'gpudiag_gpu_power_watts{uuid="GPU-b"}'
    assert judge("nvml-wedged", {**SILENCE, other: "300x19"}) == [Healthy(())]
