from __future__ import annotations

import os
from pathlib import Path

from gpudiag.agent.config import Config
from gpudiag.agent.doctor.examine import Examination, examine
from gpudiag.agent.doctor.report import Line
from gpudiag.agent.doctor.rights import Process
from gpudiag.probes import Probe
from gpudiag.probes.host import Host
from gpudiag.probes.infiniband import Infiniband
from gpudiag.probes.kmsg import Kmsg
from gpudiag.probes.network import Network
from gpudiag.probes.nvml.probe import Nvml
from tests.simdriver.state import SimDriver

NODES = Path(__file__).parents[2] / "nodes"


def examined(
    node: str, *more: Probe, deadline: float = 10.0, since_boot: float = 90_000.0
) -> Examination:
    root = NODES / node
    probes: list[Probe] = [
        Kmsg(root / "kmsg", since_boot=lambda: since_boot),
        Host(root / "proc", root / "sys"),
        Network(sys=root / "sys", proc=root / "proc"),
        Infiniband(root / "sys"),
        *more,
    ]
    return examine(
        Config(),
        probes,
        Process({"GPUDIAG_STATE_DIR": "/proc/none"}, 1000, root / "proc", root / "dev"),
        observe=lambda *_: None,
        seconds=0.5,
        deadline=deadline,
        sys=root / "sys",
    )


def nvml(sim: SimDriver) -> Nvml:
    env = {**os.environ, **sim.environment}
    return Nvml(cadence=0.1, env=env)


def line(found: Examination, area: str, check: str) -> Line:
    return next(x for x in found.lines if (x.area, x.check) == (area, check))


def test_a_healthy_node_of_eight(sim: SimDriver) -> None:
    found = examined("h100x8", nvml(sim))
    assert line(found, "driver", "NVML").state == "ok"
    gpus = [x for x in found.lines if x.area == "gpu"]
    assert [x.state for x in gpus] == ["ok"] * 8
    assert "NVIDIA H100" in gpus[0].seen


def test_the_kernels_log_is_told_since_boot(sim: SimDriver) -> None:
    found = examined("h100x8", nvml(sim))
    xid = line(found, "kernel log", "XID 94 on 0000:b3:00.0")
    assert "2 x Contained memory error" in xid.seen
    assert "eth1: Link down" in line(found, "kernel log", "network links down").seen


def test_a_driver_that_hangs_is_told_and_the_rest_goes_on(sim: SimDriver) -> None:
    sim.delay("*", 60)
    found = examined("h100x8", nvml(sim), deadline=2.0)
    assert line(found, "driver", "NVML").state == "critical"
    assert line(found, "host", "memory").state == "ok"


def test_versions_that_differ_are_told_by_nvmls_code(sim: SimDriver) -> None:
    sim.error("nvmlInit", 18)
    found = examined("h100x8", nvml(sim))
    assert "LIB_RM_VERSION_MISMATCH" in line(found, "driver", "NVML").seen


def test_a_bare_machine_without_driver() -> None:
    empty = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    found = examined("bare", Nvml(cadence=0.1, env=empty))
    assert line(found, "driver", "NVML").state == "absent"
    assert not found.nothing


def test_nothing_at_all_could_be_read(tmp_path: Path) -> None:
    process = Process({}, 1000, tmp_path, tmp_path)
    found = examine(
        Config(),
        [Host(tmp_path, tmp_path), Kmsg(tmp_path / "kmsg")],
        process,
        observe=lambda *_: None,
        seconds=0.1,
        deadline=1.0,
        sys=tmp_path,
    )
    assert found.nothing


def test_json_has_lines_and_findings() -> None:
    plain = examined("bare").to_json()
    assert plain.keys() == {"lines", "findings"}
    assert plain["lines"][0].keys() == {"area", "check", "state", "seen", "todo"}


def test_an_xid_is_raised_once_for_the_gpu_it_is_about(sim: SimDriver) -> None:
    sim.set(3, bus_id="00000000:B3:00.0")
    found = examined("h100x8", nvml(sim), since_boot=86_420.0)
    assert [f.subject[0][0] for f in found.findings if f.symptom == "gpu-xid"] == ["uuid"]
