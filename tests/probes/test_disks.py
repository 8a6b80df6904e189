from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.probes import Sample
from gpudiag.probes.disks import Disks, Mount, Space, choose, local_space, parse_mounts
from gpudiag.probes.errors import Unavailable

NODES = Path(__file__).parents[1] / "nodes"


class Answers:
    closed = False

    def __call__(self, point: str) -> Space | None:
        return Space(10.0, 4.0)

    def close(self) -> None:
        self.closed = True


REMOTE = ["/shared", "/lustre", "/mnt/s3"]


def mounts(name: str) -> Path:
    return NODES / name / "proc/self/mountinfo"


def points(disks: Disks) -> set[str]:
    return {s.labels[0][1] for s in disks.read() if isinstance(s, Sample)}


def test_only_real_local_file_systems_once_each() -> None:
    asked: list[str] = []
    disks = Disks(mounts("h100x8"), local=lambda p: asked.append(p) or Space(10.0, 4.0))  # type: ignore[func-returns-value]
    assert points(disks) == {"/", "/scratch fast"}
    assert sorted(asked) == ["/", "/scratch fast"]


def test_remote_mounts_are_asked_through_their_own_reader_only() -> None:
    def never(point: str) -> Space:
        raise AssertionError(point)

    disks = Disks(
        mounts("h100x8"),
        local=lambda _: None,
        remote=Answers(),
        is_folder=lambda p: p not in REMOTE or bool(never(p)),
    )
    assert points(disks) == set(REMOTE)


def test_size_and_room_are_bytes() -> None:
    disks = Disks(mounts("bare"), clock=lambda: 7.0, local=lambda _: Space(10.0, 4.0))
    pairs = (("mountpoint", "/"),)
    assert list(disks.read()) == [
        Sample("gpudiag_filesystem_size_bytes", pairs, 7.0, 10.0),
        Sample("gpudiag_filesystem_available_bytes", pairs, 7.0, 4.0),
    ]


@pytest.mark.parametrize("space", [None, Space(0.0, 0.0)])
def test_a_mount_that_does_not_answer_is_absent(space: Space | None) -> None:
    assert list(Disks(mounts("bare"), local=lambda _: space).read()) == []


def test_a_bind_of_a_file_does_not_stand_for_its_file_system() -> None:
    found = [Mount("8:1", "/etc/hosts", "ext4"), Mount("8:1", "/var/lib/data", "ext4")]
    assert choose(found, lambda point: point != "/etc/hosts") == [found[1]]


def test_a_new_mount_is_seen(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")
    disks = Disks(table, local=lambda _: Space(1.0, 1.0), is_folder=lambda _: True)
    assert points(disks) == {"/"}
    table.write_text(table.read_text() + "2 1 8:2 / /data rw - xfs /dev/sdb rw\n")
    assert points(disks) == {"/", "/data"}


@pytest.mark.parametrize("text", ["", "garbage\n", "1 2 3 - ext4\n", "1 0 8:1 / /\n"])
def test_a_malformed_mount_line_is_left_out(text: str) -> None:
    assert parse_mounts(text) == []


def test_local_space_of_a_folder_and_of_none(tmp_path: Path) -> None:
    space = local_space(str(tmp_path))
    assert space is not None
    assert 0 < space.available <= space.size
    assert local_space(str(tmp_path / "none")) is None


def test_no_mount_table_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="mount /proc"):
        list(Disks(tmp_path / "none").read())


def test_closing_ends_the_remote_reader() -> None:
    remote = Answers()
    Disks(mounts("bare"), remote=remote).close()
    assert remote.closed
