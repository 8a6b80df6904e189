from gpudiag.agent.rules.contract import Healthy
from tests.agent.rules.seam import diagnoses, judge

FLAG = 'gpudiag_gpu_throttle_active{uuid="GPU-1",gpu="1",reason="power_brake"}'


def test_three_polls_of_the_brake_tell() -> None:
    assert diagnoses(judge("power-brake", {FLAG: "0x20 1x2"}, every=15.0))


def test_a_single_poll_does_not() -> None:
    assert isinstance(judge("power-brake", {FLAG: "0x20 1"}, every=15.0)[0], Healthy)


def test_the_power_cap_is_named_as_no_rival() -> None:
    cap = FLAG.replace("power_brake", "power_cap")
    found = diagnoses(judge("power-brake", {FLAG: "1x30", cap: "1x30"}))["GPU-1"]
    assert found.rivals[0].cause == "power-cap"


def test_the_cap_alone_says_nothing() -> None:
    assert judge("power-brake", {FLAG.replace("power_brake", "power_cap"): "1x30"}) == []
