from gpudiag.agent.rules.contract import Diagnosis, Healthy
from tests.agent.rules.seam import judge

SYMPTOM = "driver-mismatch"
LINE = (
    "NVRM: API mismatch: the client has the version 550.90.07, but NVRM: this kernel module has"
    " the version 550.54.15."
)
LOAD = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build"
SUCCESS = 'gpudiag_probe_success{probe="nvml"}'


def test_the_kernel_line_gives_both_versions() -> None:
    (said,) = judge(SYMPTOM, {}, [(5.0, LINE)])
    assert isinstance(said, Diagnosis)
    assert "550.90.07" in said.summary
    assert "550.54.15" in said.summary


def test_a_driver_loaded_since_takes_the_line_back() -> None:
    assert judge(SYMPTOM, {SUCCESS: "1x9"}, [(5.0, LINE), (9.0, LOAD)]) == [Healthy(())]


def test_an_agent_that_reads_well_puts_it_down_to_one_container() -> None:
    (said,) = judge(SYMPTOM, {SUCCESS: "1x9"}, [(50.0, LINE)])
    assert isinstance(said, Diagnosis)
    assert said.severity == "warning"


def test_nvml_code_18_counts_when_it_lasts() -> None:
    assert isinstance(judge(SYMPTOM, {"gpudiag_nvml_return_code": "0x3 18x4"})[0], Diagnosis)
    assert judge(SYMPTOM, {"gpudiag_nvml_return_code": "0x3 18 18"}) == [Healthy(())]


def test_unlike_versions_are_told() -> None:
    info = 'gpudiag_driver_info{nvml="550.90.07",kernel_module="550.54.15"}'
    assert isinstance(judge(SYMPTOM, {info: "1x5"})[0], Diagnosis)
    assert judge(SYMPTOM, {info.replace("550.90.07", "550.54.15"): "1x5"}) == [Healthy(())]
