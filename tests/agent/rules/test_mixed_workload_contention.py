from gpudiag.agent.rules.contract import Diagnosis, Healthy
from tests.agent.rules.seam import judge

SYMPTOM = "mixed-workload-contention"
ONE = 'gpudiag_gpu_process_memory_bytes{uuid="g",pid="1",process="a"}'
TWO = 'gpudiag_gpu_process_memory_bytes{uuid="g",pid="2",process="b"}'
TOTAL = 'gpudiag_gpu_memory_total_bytes{uuid="g"}'
RETRIES = 'gpudiag_torch_alloc_retries_total{job="b",rank="0"}'
STEP = 'gpudiag_train_step_seconds{job="b",rank="0"}'
BUSY = 'gpudiag_gpu_utilization_ratio{uuid="g"}'
CALM = [Healthy((("uuid", "g"),))]
SHARED = {ONE: "50x90", TWO: "28x90", TOTAL: "80x90"}


def test_a_full_gpu_with_retries_is_squeezed() -> None:
    (said,) = judge(SYMPTOM, SHARED | {RETRIES: "0x60 1+1x30"})
    assert isinstance(said, Diagnosis)
    assert "a (1), b (2)" in said.summary


def test_a_full_gpu_without_a_sufferer_is_shared_well() -> None:
    assert judge(SYMPTOM, SHARED) == CALM


def test_retries_with_room_left_are_somebodys_own() -> None:
    roomy = SHARED | {TOTAL: "200x90", RETRIES: "0x60 1+1x30"}
    assert judge(SYMPTOM, roomy) == CALM


def test_one_process_alone_contends_with_nobody() -> None:
    assert judge(SYMPTOM, {ONE: "78x90", TOTAL: "80x90", RETRIES: "0+1x90"}) == CALM


def test_slower_steps_on_a_busy_gpu_are_a_squeeze_of_time() -> None:
    slower = {STEP: "1x60 1.6x30", BUSY: "0.99x90"}
    (said,) = judge(SYMPTOM, SHARED | {TOTAL: "200x90"} | slower, every=30.0)
    assert isinstance(said, Diagnosis)
    assert "1.6 times" in said.summary
