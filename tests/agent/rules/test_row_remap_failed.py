from gpudiag.agent.rules.contract import Healthy
from tests.agent.rules.seam import diagnoses, judge

FAILED = 'gpudiag_gpu_row_remap_failed{uuid="GPU-a"}'
PENDING = 'gpudiag_gpu_row_remap_pending{uuid="GPU-a"}'


def test_failed() -> None:
    found = diagnoses(judge("row-remap-failed", {FAILED: "0x5 1", PENDING: "1x6"}))["GPU-a"]
    assert found.rivals[0].why_not == "a reset will not mend it"


def test_pending_alone_is_not_failed() -> None:
    said = judge("row-remap-failed", {FAILED: "0x6", PENDING: "1x6"})
    assert said == [Healthy((("uuid", "GPU-a"),))]
