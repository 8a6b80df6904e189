from gpudiag.agent.rules.contract import Healthy, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "fabric-manager-down"
A = 'gpudiag_gpu_fabric_state{uuid="GPU-a"}'
B = 'gpudiag_gpu_fabric_state{uuid="GPU-b"}'
LOAD = (1.0, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build")


def test_a_state_that_stays_not_started_is_told_for_its_gpu() -> None:
    said = diagnoses(judge(SYMPTOM, {A: "3x5 1x8", B: "3x13"}))
    assert set(said) == {"GPU-a"}
    assert "1 of 2" in said["GPU-a"].summary


def test_in_progress_is_given_more_time() -> None:
    assert diagnoses(judge(SYMPTOM, {A: "3x5 2x8"})) == {}
    assert "GPU-a" in diagnoses(judge(SYMPTOM, {A: "3x5 2x15"}))


def test_a_driver_just_loaded_is_given_five_minutes() -> None:
    assert diagnoses(judge(SYMPTOM, {A: "1x20"}, [LOAD])) == {}


def test_completed_is_health_and_not_supported_is_nothing() -> None:
    assert judge(SYMPTOM, {A: "3x5", B: "0x5"}) == [Healthy(()), Healthy(subject(uuid="GPU-a"))]
    assert judge(SYMPTOM, {B: "0x5"}) == []
