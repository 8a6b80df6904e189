from __future__ import annotations

from gpudiag.agent.doctor import network
from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line
from tests.agent.doctor.glance import absent, finding, glance, told

CARD = told("network_rx_bytes_total", 1, device="eth1")
PORT = {"device": "mlx5_0", "port": "1"}


def line(look: Look, check: str) -> Line:
    return next(found for found in network.lines(look) if found.check == check)


def test_a_card_with_its_counts() -> None:
    look = glance(
        CARD, told("network_up", 1, device="eth1"), told("network_errors_total", 4, device="eth1")
    )
    assert line(look, "eth1") == Line("network", "eth1", "ok", "up, 4 errors since boot")


def test_a_link_that_is_down_is_a_note() -> None:
    assert line(glance(CARD, told("network_up", 0, device="eth1")), "eth1").state == "note"


def test_a_flapping_card_is_what_the_rule_says() -> None:
    flaps = finding("network-link-flapping", subject=(("device", "eth1"),))
    assert line(glance(CARD, findings=[flaps]), "eth1").state == "critical"


def test_a_port_with_its_errors() -> None:
    look = glance(
        told("ib_port_up", 1, **PORT),
        told("ib_link_downed_total", 2, **PORT),
        told("ib_errors_total", 9, **PORT, kind="symbol_error"),
        told("ib_errors_total", 0, **PORT, kind="port_rcv_errors"),
    )
    assert (
        line(look, "mlx5_0 port 1").seen == "active, link lost 2 times since boot, 9 symbol_error"
    )


def test_no_infiniband_is_not_here() -> None:
    look = glance(infiniband=absent("infiniband", "no InfiniBand port"))
    assert line(look, "infiniband") == Line("network", "infiniband", "absent", "no InfiniBand port")


def test_a_probe_that_does_not_answer_cannot_tell() -> None:
    assert line(glance(silent=["network"]), "network").state == "unknown"
