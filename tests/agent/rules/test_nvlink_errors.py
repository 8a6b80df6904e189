from gpudiag.agent.rules.contract import Diagnosis
from tests.agent.rules.seam import diagnoses, judge


def up(gpu: int, link: int) -> str:
    return f'gpudiag_gpu_nvlink_up{{uuid="GPU-{gpu}",link="{link}"}}'


def errors(kind: str, link: int = 3) -> str:
    return f'gpudiag_gpu_nvlink_errors_total{{uuid="GPU-0",link="{link}",kind="{kind}"}}'


def told(series: dict[str, str]) -> dict[str, Diagnosis]:
    return diagnoses(judge("nvlink-errors", series))


def test_a_link_that_was_up_is_down() -> None:
    found = told({up(0, 3): "1x10 0x5", up(0, 4): "1x15"})["GPU-0"]
    assert found.summary == "GPU GPU-0: NVLink 3 is down."
    assert found.severity == "critical"


def test_a_link_that_is_up_on_peers_should_be_up() -> None:
    peers = {up(gpu, 3): "1x15" for gpu in (1, 2, 3)}
    assert told({up(0, 3): "0x15", **peers}).keys() == {"GPU-0"}


def test_a_link_that_no_gpu_uses_is_no_fault() -> None:
    assert told({up(gpu, 17): "0x15" for gpu in range(4)}) == {}


def test_mig_turns_links_off() -> None:
    mig = 'gpudiag_gpu_info{uuid="GPU-0",mig_profile="3g.40gb"}'
    assert told({up(0, 3): "1x10 0x5", mig: "1x15"}) == {}


def test_one_recovery_counts_and_one_replay_does_not() -> None:
    assert told({errors("recovery"): "2x10 3x10"})
    assert told({errors("replay"): "2x10 3x10"}) == {}


def test_counts_from_before_are_no_errors_now() -> None:
    assert told({errors("recovery"): "9x20", errors("crc"): "1240x20"}) == {}


def test_a_crc_storm_is_critical() -> None:
    assert told({errors("crc"): "0x5 0+20x20"})["GPU-0"].severity is None
    assert told({errors("crc"): "0x5 0+4000x20"})["GPU-0"].severity == "critical"


def test_a_fatal_switch_error_is_critical_and_another_is_info() -> None:
    line = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): {}, Link 30 LTSSM Fault Up"
    idle = {up(0, 3): "1x15"}
    for text, severity in (("20034, Fatal", "critical"), ("12028, Non-fatal", "info")):
        said = judge("nvlink-errors", idle, [(100.0, line.format(text))])
        assert diagnoses(said)["0000:05:00.0"].severity == severity
