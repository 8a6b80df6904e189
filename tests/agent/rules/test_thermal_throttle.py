import pytest

from gpudiag.agent.rules.contract import Healthy
from tests.agent.rules.seam import diagnoses, judge

FLAG = 'gpudiag_gpu_throttle_active{{uuid="GPU-{}",gpu="{}",reason="{}"}}'
COUNTER = 'gpudiag_gpu_throttle_seconds_total{uuid="GPU-1",gpu="1",reason="hw_thermal"}'


def flag(gpu: int, reason: str = "hw_thermal") -> str:
    return FLAG.format(gpu, gpu, reason)


@pytest.mark.parametrize("every", [1.0, 5.0, 30.0, 60.0])
def test_a_lasting_flag_is_throttling_at_any_interval(every: float) -> None:
    rows = int(900 / every)
    found = judge("thermal-throttle", {flag(1): f"0x{rows} 1x{rows}"}, every=every)
    assert diagnoses(found)["GPU-1"].summary.startswith("GPU 1 has spent 100%")


@pytest.mark.parametrize("every", [1.0, 5.0, 10.0, 60.0])
def test_one_blip_is_not(every: float) -> None:
    blip = max(int(20 / every), 1) - 1
    found = judge("thermal-throttle", {flag(1): f"0x100 1x{blip}"}, every=every)
    assert found == [Healthy((("uuid", "GPU-1"),))]


def test_the_counter_alone_tells() -> None:
    found = diagnoses(judge("thermal-throttle", {COUNTER: "900x20 900+5x20"}))
    assert found["GPU-1"].evidence[0].value == pytest.approx(0.5, abs=0.05)


def test_the_power_cap_is_not_thermal() -> None:
    assert judge("thermal-throttle", {flag(1, "power_cap"): "1x60"}) == []


def test_peers_and_margin_make_it_surer() -> None:
    clock = 'gpudiag_gpu_clock_hertz{{uuid="GPU-{}",clock="sm"}}'
    series = {
        flag(1): "1x30",
        'gpudiag_gpu_temperature_margin_celsius{uuid="GPU-1"}': "1x30",
        **{clock.format(i): "1.2e9x30" if i == 1 else "1.98e9x30" for i in range(4)},
    }
    found = diagnoses(judge("thermal-throttle", series))["GPU-1"]
    assert found.confidence > 0.95
    assert "1.20 GHz where its peers run at 1.98 GHz" in found.summary


def test_all_at_once_points_at_the_room() -> None:
    series = {flag(i, "sw_thermal"): "1x30" for i in range(8)}
    assert "8 of 8 GPUs" in diagnoses(judge("thermal-throttle", series))["GPU-0"].summary


def test_what_comes_and_goes_for_long_is_throttling() -> None:
    assert diagnoses(judge("thermal-throttle", {flag(1): " ".join(["1 0x3"] * 20)}))
    assert not diagnoses(judge("thermal-throttle", {flag(1): " ".join(["1 0x18"] * 5)}))
