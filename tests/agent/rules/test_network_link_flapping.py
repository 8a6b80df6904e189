from gpudiag.agent.rules.contract import Healthy, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "network-link-flapping"
DOWNED = 'gpudiag_ib_link_downed_total{device="mlx5_0",port="1"}'
CARRIER = 'gpudiag_network_carrier_changes_total{device="eth0"}'
UP = 'gpudiag_ib_port_up{device="mlx5_0",port="1"}'


def test_three_drops_within_the_hour_are_flapping() -> None:
    said = diagnoses(judge(SYMPTOM, {DOWNED: "5x3 6x3 7x3 8x3"}))["mlx5_0"]
    assert "3 times" in said.summary
    assert said.since == 40.0


def test_two_drops_are_only_noted_and_one_is_nothing() -> None:
    assert diagnoses(judge(SYMPTOM, {DOWNED: "5x3 6x3 7x3"}))["mlx5_0"].severity == "info"
    assert judge(SYMPTOM, {DOWNED: "5x3 6x3"}) == [Healthy(subject(device="mlx5_0"))]


def test_the_carrier_counts_the_way_down_and_the_way_up() -> None:
    assert diagnoses(judge(SYMPTOM, {CARRIER: "9+1x3"})) == {}
    assert diagnoses(judge(SYMPTOM, {CARRIER: "9+1x6"}))["eth0"].severity == "warning"


def test_states_do_where_there_is_no_counter() -> None:
    assert "mlx5_0" in diagnoses(judge(SYMPTOM, {UP: "1 0 1 1 0 1 0 1"}))


def test_an_unused_port_is_not_flapping() -> None:
    assert judge(SYMPTOM, {UP: "0x20"}) == [Healthy(subject(device="mlx5_0"))]


def test_a_containers_link_may_come_and_go() -> None:
    assert judge(SYMPTOM, {CARRIER.replace("eth0", "veth12"): "2+2x20"}) == []


def test_kernel_lines_name_the_device() -> None:
    lines = [(t, "mlx5_core 0000:17:00.0 ens1: Link down") for t in (1.0, 60.0, 90.0)]
    assert "ens1" in diagnoses(judge(SYMPTOM, {}, lines))


def test_a_driver_that_words_only_the_way_up_is_understood() -> None:
    ready = "IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready"
    said = diagnoses(judge(SYMPTOM, {}, [(t, ready) for t in (1.0, 60.0, 90.0, 120.0)]))
    assert said["ib0"].severity == "warning"


def test_what_only_the_kernel_named_calms_down_after_an_hour() -> None:
    lines = [(t, "mlx5_core 0000:17:00.0 ens1: Link down") for t in (1.0, 60.0, 90.0)]
    assert judge(SYMPTOM, {}, lines, now=3800.0) == [Healthy(subject(device="ens1"))]


def test_links_may_train_while_the_node_boots() -> None:
    booting = {CARRIER: "1+1x9", "gpudiag_host_uptime_seconds": "20+10x9"}
    assert diagnoses(judge(SYMPTOM, booting)) == {}
