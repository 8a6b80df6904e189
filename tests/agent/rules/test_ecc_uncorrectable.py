from gpudiag.agent.rules.contract import Diagnosis, Healthy
from tests.agent.rules.seam import diagnoses, judge

GPU = (("uuid", "GPU-a"),)


def errors(kind: str = "uncorrected", scope: str = "volatile") -> str:
    return f'gpudiag_gpu_ecc_errors_total{{uuid="GPU-a",kind="{kind}",scope="{scope}"}}'


def told(series: dict[str, str]) -> Diagnosis:
    return diagnoses(judge("ecc-uncorrectable", series))["GPU-a"]


def test_an_increase_is_a_finding_counted_once() -> None:
    found = told({errors(): "0x5 2x5", errors(scope="aggregate"): "7x5 9x5"})
    assert found.evidence[0].value == 2.0
    assert found.since == 60.0


def test_spent_spares_ask_for_a_replacement() -> None:
    failed = 'gpudiag_gpu_row_remap_failed{uuid="GPU-a"}'
    assert "replace it" in told({errors(): "0x5 1x5", failed: "1x10"}).summary


def test_a_reset_ends_it() -> None:
    said = judge("ecc-uncorrectable", {errors(): "0x5 1x5 0x5"})
    assert said == [Healthy(GPU)]


def test_corrected_errors_and_old_aggregates_are_no_finding() -> None:
    assert judge("ecc-uncorrectable", {errors("corrected"): "0+1x20"}) == []
    assert judge("ecc-uncorrectable", {errors(scope="aggregate"): "3x20"}) == [Healthy(GPU)]


def test_what_stood_before_is_told_as_info() -> None:
    assert told({errors(): "2x20"}).severity == "info"
