from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from gpudiag.probes import Sample
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.network import Network, link_up, parse_retransmits

NODES = Path(__file__).parents[1] / "nodes"


def values(network: Network) -> dict[tuple[str, str], float]:
    return {
        (s.metric.removeprefix("gpudiag_"), dict(s.labels).get("device", "")): s.value
        for s in network.read()
        if isinstance(s, Sample)
    }


def node(root: Path) -> Network:
    return Network(root / "proc", root / "sys", clock=lambda: 1.0)


def test_a_card_with_its_counters() -> None:
    found = values(node(NODES / "h100x8"))
    assert {metric: value for (metric, device), value in found.items() if device == "eth0"} == {
        "network_rx_bytes_total": 123456789.0,
        "network_tx_bytes_total": 987654321.0,
        "network_errors_total": 3.0,
        "network_drops_total": 6.0,
        "network_carrier_changes_total": 4.0,
        "network_up": 1.0,
    }
    assert found["tcp_retransmits_total", ""] == 77.0


def test_what_has_no_device_under_it_is_left_out() -> None:
    found = values(node(NODES / "h100x8"))
    assert {device for _, device in found} == {"eth0", "eth1", "eth2", ""}


def test_a_lost_link_is_down_and_one_switched_off_is_absent() -> None:
    found = values(node(NODES / "h100x8"))
    assert found["network_up", "eth1"] == 0.0
    assert ("network_up", "eth2") not in found


@pytest.mark.parametrize(
    ("state", "flags", "expected"),
    [
        ("up\n", "0x1003\n", 1.0),
        ("lowerlayerdown", "0x1003", 0.0),
        ("down", "0x1002", None),
        ("unknown", "0x1003", None),
        ("up", "", None),
    ],
)
def test_link_state(state: str, flags: str, expected: float | None) -> None:
    assert link_up(state, flags) == expected


def test_cards_come_and_go(tmp_path: Path) -> None:
    shutil.copytree(NODES / "h100x8", tmp_path, dirs_exist_ok=True)
    network = node(tmp_path)
    values(network)
    shutil.move(tmp_path / "sys/class/net/eth1", tmp_path / "sys/class/net/eth9")
    assert {device for _, device in values(network)} == {"eth0", "eth2", "eth9", ""}


def test_a_counter_that_is_missing_is_absent_and_the_rest_stays(tmp_path: Path) -> None:
    shutil.copytree(NODES / "bare", tmp_path, dirs_exist_ok=True)
    (tmp_path / "sys/class/net/eth0/statistics/rx_errors").unlink()
    found = values(node(tmp_path))
    assert ("network_errors_total", "eth0") not in found
    assert found["network_rx_bytes_total", "eth0"] == 1000.0


@pytest.mark.parametrize("text", ["", "Tcp: A B\n", "Tcp: A\nTcp: 1\n", "Udp: 1\n"])
def test_no_retransmit_counter_is_absent(text: str) -> None:
    assert parse_retransmits(text) is None


def test_no_network_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="/sys"):
        list(node(tmp_path).read())


def test_a_read_of_this_machine_is_cheap() -> None:
    network = Network()
    list(network.read())
    started = time.process_time()
    for _ in range(50):
        list(network.read())
    assert (time.process_time() - started) / 50 < 0.002
    network.close()
