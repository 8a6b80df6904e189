from gpudiag.agent.rules.contract import Diagnosis, Healthy
from tests.agent.rules.seam import diagnoses, judge

INFO = {
    'gpudiag_gpu_info{uuid="GPU-a",gpu="0",pci_bus_id="00000000:07:00.0"}': "1x400",
    'gpudiag_gpu_info{uuid="GPU-b",gpu="1",pci_bus_id="00000000:0B:00.0"}': "1x400",
}


def xid(code: int, rest: str = "", *, pci: str = "0000:07:00") -> str:
    return f"NVRM: Xid (PCI:{pci}): {code}, pid=42, name=python, {rest}"


def told(*lines: tuple[float, str], now: float | None = None) -> dict[str, Diagnosis]:
    return diagnoses(judge("gpu-xid", INFO, lines, now=now))


def test_a_cause_comes_before_its_consequences() -> None:
    found = told((5, xid(45)), (6, xid(48)), (7, xid(63)), now=8)["GPU-a"]
    assert found.cause == "xid-48"
    assert [r.cause for r in found.rivals] == ["xid-45", "xid-63"]


def test_a_burst_of_45_is_info_without_action() -> None:
    found = told((5, xid(45)), (5, xid(45, pci="0000:0b:00")), now=20)
    assert {(f.severity, f.actions) for f in found.values()} == {("info", ())}
    assert len(found) == 2


def test_a_consequence_waits_for_its_cause() -> None:
    assert told((5, xid(45)), now=8) == {}


def test_154_overrides_the_catalogue() -> None:
    verdict = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    found = told((5, xid(94)), (6, xid(154, verdict)), now=8)["GPU-a"]
    assert found.cause == "xid-94"
    assert found.actions[-1].rung == "restart"
    assert "rebooted" in found.summary


def test_an_unknown_code_gives_no_action() -> None:
    found = told((5, xid(999)), now=8)["GPU-a"]
    assert (found.cause, found.actions) == ("unknown-code", ())


def test_the_same_code_ten_minutes_apart_is_two() -> None:
    found = told((5, xid(119)), (605, xid(119)), now=606)["GPU-a"]
    assert "2 times in 24 h" in found.summary


def test_line_and_counter_are_one() -> None:
    series = {**INFO, 'gpudiag_gpu_xid_errors_total{uuid="GPU-a",xid="79"}': "0x5 1x5"}
    found = diagnoses(judge("gpu-xid", series, [(49, xid(79))], now=101))["GPU-a"]
    assert found.evidence[1].value == 1.0


def test_a_counter_alone_tells() -> None:
    series = {**INFO, 'gpudiag_gpu_xid_errors_total{uuid="GPU-b",xid="62"}': "3x5 4x5"}
    assert diagnoses(judge("gpu-xid", series, now=101))["GPU-b"].cause == "xid-62"


def test_a_counter_that_stood_before_tells_nothing() -> None:
    series = {**INFO, 'gpudiag_gpu_xid_errors_total{uuid="GPU-b",xid="62"}': "3x10"}
    assert judge("gpu-xid", series, now=101) == []


def test_a_reset_clears_hardware_and_silence_clears_the_application() -> None:
    reset = (60, "nvidia 0000:07:00.0: resetting")
    assert isinstance(judge("gpu-xid", INFO, [(5, xid(119)), reset], now=70)[0], Healthy)
    assert told((5, xid(31)), now=500)
    assert told((5, xid(31)), now=700) == {}
    assert told((5, xid(119)), now=700)


def test_page_faults_that_stay_on_one_gpu_suspect_it() -> None:
    here, there = xid(31), xid(31, pci="0000:0b:00")
    assert told((5, here), (600, here), now=601)["GPU-a"].actions[0].rung == "drain"
    moved = told((5, here), (300, there), (600, here), now=601)["GPU-a"]
    assert moved.actions[0].rung == "notify"


def test_a_nonfatal_nvlink5_error_is_info() -> None:
    line = xid(145, "RLW_REMAP Nonfatal XC0 i0 Link 08 (0x00000004 0x00000100 0 0 0 0)")
    assert told((5, line), now=8)["GPU-a"].severity == "info"


def test_fallen_off_without_the_word_xid() -> None:
    line = "NVRM: GPU 0000:0b:00.0: GPU has fallen off the bus."
    assert told((5, line), now=6)["GPU-b"].cause == "xid-79"
