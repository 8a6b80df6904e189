from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpudiag.probes import Sample
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.infiniband import Infiniband, port_up

NODES = Path(__file__).parents[1] / "nodes"


def values(probe: Infiniband) -> dict[tuple[str, str, str], float]:
    return {
        (s.metric, dict(s.labels)["device"], dict(s.labels).get("kind", "")): s.value
        for s in probe.read()
        if isinstance(s, Sample)
    }


def test_state_flaps_and_errors_of_each_port() -> None:
    found = values(Infiniband(NODES / "h100x8/sys"))
    assert found["gpudiag_ib_port_up", "mlx5_0", ""] == 1.0
    assert found["gpudiag_ib_port_up", "mlx5_1", ""] == 0.0
    assert found["gpudiag_ib_link_downed_total", "mlx5_1", ""] == 12.0
    assert found["gpudiag_ib_errors_total", "mlx5_0", "symbol_error"] == 3.0
    assert found["gpudiag_ib_errors_total", "mlx5_0", "out_of_sequence"] == 7.0


def test_counters_that_grow_on_healthy_fabrics_or_do_not_exist_are_left_out() -> None:
    kinds = {kind for _, _, kind in values(Infiniband(NODES / "h100x8/sys"))}
    assert not kinds & {"VL15_dropped", "port_xmit_wait", "port_rcv_constraint_errors"}


def test_a_port_disabled_on_purpose_has_no_state() -> None:
    found = values(Infiniband(NODES / "h100x8/sys"))
    assert ("gpudiag_ib_port_up", "mlx5_2", "") not in found
    assert found["gpudiag_ib_link_downed_total", "mlx5_2", ""] == 0.0


@pytest.mark.parametrize(
    ("state", "physical", "expected"),
    [
        ("4: ACTIVE\n", "5: LinkUp\n", 1.0),
        ("2: INIT\n", "5: LinkUp\n", 0.0),
        ("1: DOWN\n", "", 0.0),
        ("1: DOWN\n", "3: Disabled\n", None),
        ("", "", None),
        ("garbage", "", None),
    ],
)
def test_port_state(state: str, physical: str, expected: float | None) -> None:
    assert port_up(state, physical) == expected


def test_no_infiniband_is_absent_not_failed() -> None:
    with pytest.raises(Unavailable, match="InfiniBand"):
        list(Infiniband(NODES / "bare/sys").read())


def test_a_card_that_went_is_absent_and_its_files_are_closed(tmp_path: Path) -> None:
    shutil.copytree(NODES / "h100x8/sys", tmp_path, dirs_exist_ok=True)
    before = len(os.listdir("/proc/self/fd"))
    probe = Infiniband(tmp_path)
    values(probe)
    shutil.rmtree(tmp_path / "class/infiniband/mlx5_0")
    assert {device for _, device, _ in values(probe)} == {"mlx5_1", "mlx5_2"}
    probe.close()
    assert len(os.listdir("/proc/self/fd")) == before
