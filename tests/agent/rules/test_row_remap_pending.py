from gpudiag.agent.rules.contract import Healthy
from tests.agent.rules.seam import diagnoses, judge

PENDING = 'gpudiag_gpu_row_remap_pending{uuid="GPU-a"}'


def test_pending() -> None:
    found = diagnoses(judge("row-remap-pending", {PENDING: "0x5 1"}))["GPU-a"]
    assert [a.rung for a in found.actions] == ["notify", "drain"]


def test_not_pending() -> None:
    assert judge("row-remap-pending", {PENDING: "1x5 0"}) == [Healthy((("uuid", "GPU-a"),))]


def test_silence_is_neither() -> None:
    assert judge("row-remap-pending", {PENDING: "1x5 stale"}) == []
