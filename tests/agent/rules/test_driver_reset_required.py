from gpudiag.agent.rules.contract import Healthy, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "driver-reset-required"
ACTION = 'gpudiag_gpu_recovery_action{uuid="GPU-a",gpu="0"}'
INFO = {'gpudiag_gpu_info{uuid="GPU-a",pci_bus_id="00000000:3B:00.0"}': "1x20"}
XID = (
    "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x0 (None) to 0x1"
    " (GPU Reset Required)"
)


def test_a_lasting_verdict_names_gpu_and_step() -> None:
    said = diagnoses(judge(SYMPTOM, {ACTION: "0x3 1x3"}))["GPU-a"]
    assert said.since == 40.0
    assert "gpu-reset" in said.actions[-1].text


def test_a_reboot_is_advised_where_the_driver_asks_for_one() -> None:
    said = diagnoses(judge(SYMPTOM, {ACTION: "2x5"}))["GPU-a"]
    assert "Reboot" in said.actions[-1].text


def test_no_recovery_wanted_is_health() -> None:
    assert judge(SYMPTOM, {ACTION: "0x5"}) == [Healthy(subject(uuid="GPU-a"))]


def test_xid_154_tells_where_nvml_does_not() -> None:
    assert "GPU-a" in diagnoses(judge(SYMPTOM, INFO, [(50.0, XID)]))


def test_nvmls_present_word_outweighs_an_old_line() -> None:
    for action in ("0x3 1x5 0x12", "_x8 0x12"):
        assert diagnoses(judge(SYMPTOM, {**INFO, ACTION: action}, [(50.0, XID)])) == {}


def test_a_zero_from_before_the_line_denies_nothing() -> None:
    assert "GPU-a" in diagnoses(judge(SYMPTOM, {**INFO, ACTION: "0x20"}, [(50.0, XID)]))


def test_code_16_without_a_gpu_asks_which() -> None:
    (said,) = diagnoses(judge(SYMPTOM, {"gpudiag_nvml_return_code": "0x3 16x4"})).values()
    assert "which GPU" in said.missing[0]
