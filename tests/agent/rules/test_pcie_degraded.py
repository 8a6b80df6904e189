from gpudiag.agent.rules.contract import Healthy, Unknown
from tests.agent.rules.seam import diagnoses, judge

GPU = (("uuid", "GPU-0"),)


def link(gpu: int, generation: str, width: str = "16x20") -> dict[str, str]:
    values = {
        "link_generation": generation,
        "link_generation_max": "5x20",
        "link_width": width,
        "link_width_max": "16x20",
    }
    return {f'gpudiag_gpu_pcie_{k}{{uuid="GPU-{gpu}"}}': v for k, v in values.items()}


def busy(gpu: int, values: str = "0.9x20") -> dict[str, str]:
    return {f'gpudiag_gpu_utilization_ratio{{uuid="GPU-{gpu}"}}': values}


def test_a_slow_link_under_load() -> None:
    found = diagnoses(judge("pcie-degraded", {**link(0, "1x20"), **busy(0)}))["GPU-0"]
    assert "Gen1 of Gen5" in found.summary


def test_a_narrow_link_under_load() -> None:
    found = diagnoses(judge("pcie-degraded", {**link(0, "5x20", "8x20"), **busy(0)}))["GPU-0"]
    assert "8 lanes wide of 16" in found.summary


def test_idle_gen1_is_healthy() -> None:
    said = judge("pcie-degraded", {**link(0, "1x20"), **busy(0, "0.01x20")})
    assert said == [Healthy(GPU)]


def test_without_any_sign_of_load_it_cannot_tell() -> None:
    assert isinstance(judge("pcie-degraded", link(0, "1x20"))[0], Unknown)


def test_power_tells_of_load_too() -> None:
    power = {
        'gpudiag_gpu_power_watts{uuid="GPU-0"}': "520x20",
        'gpudiag_gpu_power_limit_watts{uuid="GPU-0"}': "700x20",
    }
    assert diagnoses(judge("pcie-degraded", {**link(0, "1x20"), **power}))


def test_all_alike_is_the_platform() -> None:
    series = {k: v for i in range(8) for k, v in {**link(i, "4x20"), **busy(i)}.items()}
    found = diagnoses(judge("pcie-degraded", series))
    assert {f.severity for f in found.values()} == {"info"}


def test_replays_beyond_dcgms_limit() -> None:
    replays = 'gpudiag_gpu_pcie_replays_total{uuid="GPU-0"}'
    many = judge("pcie-degraded", {**link(0, "5x20"), replays: "4+40x20"})
    assert "240 times a minute" in diagnoses(many)["GPU-0"].summary
    few = judge("pcie-degraded", {**link(0, "5x20"), replays: "4+1x20"})
    assert few == [Healthy(GPU)]


def test_a_link_that_was_slow_from_the_start_says_since_when() -> None:
    found = diagnoses(judge("pcie-degraded", {**link(0, "1x20"), **busy(0)}))["GPU-0"]
    assert type(found.since) is float
    assert found.since == 0.0
