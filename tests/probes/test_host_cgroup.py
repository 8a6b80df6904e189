from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gpudiag.probes.host_cgroup import V1, V2, CgroupMemory, parse_limit, parse_membership

NODE = Path(__file__).parents[1] / "nodes" / "h100x8"


def found(root: Path, pids: Iterable[int] = ()) -> dict[tuple[str, str], float]:
    cgroups = CgroupMemory(root / "proc", root / "sys/fs/cgroup", lambda: pids)
    return {
        (s.metric.removeprefix("gpudiag_cgroup_"), s.labels[0][1]): s.value
        for s in cgroups.read(0.0)
    }


def test_a_watched_process_is_judged_by_the_group_that_has_the_limit() -> None:
    values = found(NODE, [4242, 4243])
    pod = "/kubepods.slice/pod1"
    assert values["memory_limit_bytes", pod] == 1e12
    assert values["memory_bytes", pod] == 4e11
    assert values["oom_kills_total", pod] == 2.0
    assert not [key for key in values if "trainer" in key[1]]


def test_a_process_that_is_gone_is_absent() -> None:
    assert {group for _, group in found(NODE, [99999])} == {"/system.slice/gpudiag.service"}


def test_a_path_outside_the_container_means_the_root_of_its_mount(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/host/only/path\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory.current").write_text("5\n")
    assert found(tmp_path) == {("memory_bytes", "/"): 5.0}


def test_a_group_that_ended_gives_nothing_and_is_let_go(tmp_path: Path) -> None:
    pids = [4242]
    cgroups = CgroupMemory(NODE / "proc", NODE / "sys/fs/cgroup", lambda: pids)
    assert len(list(cgroups.read(0.0))) == 5
    pids.clear()
    assert len(list(cgroups.read(0.0))) == 2


def test_no_cgroup_is_absent(tmp_path: Path) -> None:
    assert found(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0::/a/b\n", (V2, "/a/b")),
        ("9:memory:/x\n0::/y\n", (V1, "/x")),
        ("4:cpu,memory:/x\n", (V1, "/x")),
        ("5:devices:/\n", None),
        ("garbage\n", None),
    ],
)
def test_whose_memory_files_hold(text: str, expected: object) -> None:
    assert parse_membership(text) == expected


@pytest.mark.parametrize("text", [None, "max\n", "9223372036854771712\n", "", "-1\n"])
def test_no_limit_is_absent(text: str | None) -> None:
    assert parse_limit(text) is None
