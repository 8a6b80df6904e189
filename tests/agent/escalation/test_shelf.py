from __future__ import annotations

import os

import pytest

from gpudiag.agent.escalation.shelf import Shelf
from gpudiag.probes.errors import GpudiagError


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "steps.pickle"
    path.write_bytes(b"x" * 100)
    return path


def test_a_file_moves_here_for_its_owner_alone(tmp_path, source):
    kept = Shelf(tmp_path / "kept", 1000).keep(source, "a.pickle", os.getuid())
    assert kept.read_bytes() == b"x" * 100
    assert kept.stat().st_mode & 0o777 == 0o600
    assert not source.exists()


def test_the_oldest_give_way(tmp_path):
    shelf = Shelf(tmp_path / "kept", 250)
    for number in range(4):
        os.utime(shelf.write(f"{number}", b"x" * 100), (number, number))
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["2", "3"]


def test_what_is_too_large_is_left_where_it_is(tmp_path, source):
    with pytest.raises(GpudiagError, match="max_size"):
        Shelf(tmp_path / "kept", 99).keep(source, "a.pickle", os.getuid())
    assert source.exists()


def test_a_link_is_not_followed(tmp_path, source):
    link = tmp_path / "link"
    link.symlink_to(source)
    with pytest.raises(GpudiagError, match="symbolic links"):
        Shelf(tmp_path / "kept", 1000).keep(link, "a.pickle", os.getuid())


def test_a_disk_that_refuses_is_told(tmp_path, source):
    (tmp_path / "kept").write_text("")
    with pytest.raises(GpudiagError, match="cannot keep"):
        Shelf(tmp_path / "kept", 1000).keep(source, "a.pickle", os.getuid())


def test_what_is_not_the_ranks_own_is_neither_read_nor_removed(tmp_path, source):
    with pytest.raises(GpudiagError, match="not a file of user 4242"):
        Shelf(tmp_path / "kept", 1000).keep(source, "a.pickle", 4242)
    assert source.exists()
    assert not (tmp_path / "kept").exists()


def test_a_second_name_of_another_file_is_not_taken(tmp_path, source):
    os.link(source, tmp_path / "second")
    with pytest.raises(GpudiagError, match="of one name"):
        Shelf(tmp_path / "kept", 1000).keep(source, "a.pickle", os.getuid())


@pytest.mark.parametrize("kind", ["fifo", "folder", "none"])
def test_what_is_no_file_is_told_at_once(tmp_path, kind):
    path = tmp_path / "odd"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(GpudiagError):
        Shelf(tmp_path / "kept", 1000).keep(path, "a.pickle", os.getuid())
