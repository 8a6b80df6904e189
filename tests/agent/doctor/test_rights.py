from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line
from gpudiag.agent.doctor.rights import CHECKS, HOST_GROUPS, HOST_PIDS, Process, lines
from gpudiag.probes.catalog.rights import rights
from tests.agent.doctor.glance import absent, glance, told

ALL = f"{2**41 - 1:016x}"


def process(
    root: Path, *, caps: str = ALL, pids: str = HOST_PIDS, groups: str = HOST_GROUPS
) -> Process:
    """A process of an ordinary user, with a machine of its own under `root`."""
    own = root / "proc/self"
    (own / "ns").mkdir(parents=True)
    (own / "status").write_text(f"Name:\tpython\nCapEff:\t{caps}\n")
    os.symlink(pids, own / "ns/pid")
    os.symlink(groups, own / "ns/cgroup")
    (root / "dev").mkdir()
    (root / "dev/kmsg").touch()
    environ = {"GPUDIAG_STATE_DIR": str(root / "state"), "XDG_RUNTIME_DIR": str(root)}
    environ["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    (root / "logs").mkdir()
    (root / "account").mkdir()
    (root / "account/token").touch()
    logs = [root / "logs", root / "docker"]
    return Process(environ, 1000, root / "proc", root / "dev", logs, root / "account")


def line(of: Process, right: str, look: Look | None = None) -> Line:
    found = lines(look or glance(), of)
    return next(one for one in found if one.check == rights()[right].feature)


def test_every_right_of_the_catalogue_is_looked_for() -> None:
    assert CHECKS.keys() == rights().keys()


def test_all_is_there(tmp_path: Path) -> None:
    found = lines(glance(told("gpus", 8)), process(tmp_path))
    assert {one.state for one in found} == {"ok"}


def test_no_kernel_log_names_what_goes_blind_and_what_to_do(tmp_path: Path) -> None:
    of = process(tmp_path)
    (tmp_path / "dev/kmsg").unlink()
    found = line(of, "kernel-log")
    assert found.state == "unknown"
    assert rights()["kernel-log"].blind in found.seen
    assert "CAP_SYSLOG" in found.todo


def test_no_logs_of_containers(tmp_path: Path) -> None:
    of = process(tmp_path)
    (tmp_path / "logs").rmdir()
    found = line(of, "container-logs")
    assert (found.state, str(tmp_path / "logs") in found.seen) == ("unknown", True)
    assert "/var/log" in found.todo


def test_process_ids_of_its_own(tmp_path: Path) -> None:
    assert line(process(tmp_path, pids="pid:[4026532001]"), "host-pids").state == "unknown"


def test_control_groups_of_its_own(tmp_path: Path) -> None:
    assert line(process(tmp_path, groups="cgroup:[4026532002]"), "host-groups").state == "unknown"


@pytest.mark.parametrize(("caps", "state"), [("0000000000000020", "ok"), ("0" * 16, "unknown")])
def test_the_right_to_end_processes(tmp_path: Path, caps: str, state: str) -> None:
    assert line(process(tmp_path, caps=caps), "signals").state == state


def test_a_pod_without_a_token_cannot_act_in_the_cluster(tmp_path: Path) -> None:
    of = process(tmp_path)
    (tmp_path / "account/token").unlink()
    found = line(of, "cluster")
    assert (found.state, str(tmp_path / "account") in found.seen) == ("unknown", True)


def test_on_a_machine_there_is_no_cluster_to_act_in(tmp_path: Path) -> None:
    of = process(tmp_path)
    outside = {k: v for k, v in of.environ.items() if not k.startswith("KUBERNETES")}
    assert line(dataclasses.replace(of, environ=outside), "cluster").state == "absent"


@pytest.mark.parametrize(("caps", "state"), [("0000000000080000", "ok"), ("0" * 16, "unknown")])
def test_the_right_to_look_into_processes(tmp_path: Path, caps: str, state: str) -> None:
    assert line(process(tmp_path, caps=caps), "other-processes").state == state


def test_no_card_seen_means_a_network_of_its_own(tmp_path: Path) -> None:
    look = glance(network=absent("network", "no network card"))
    assert line(process(tmp_path), "host-network", look).state == "unknown"


def test_no_gpu_devices(tmp_path: Path) -> None:
    assert line(process(tmp_path), "gpus").state == "unknown"


def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    of = process(tmp_path)
    (tmp_path / "state").touch()
    assert "no right to write" in line(of, "state").seen


@pytest.mark.parametrize(
    ("environ", "uid", "folder"),
    [
        ({}, 0, "/run/gpudiag"),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, 7, "/run/user/7/gpudiag"),
        ({"GPUDIAG_SOCKET": "/tmp/x/agent.sock"}, 7, "/tmp/x"),
    ],
)
def test_where_the_socket_lies(environ: dict[str, str], uid: int, folder: str) -> None:
    assert Process(environ, uid).socket_folder() == Path(folder)
