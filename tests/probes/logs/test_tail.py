from pathlib import Path

import pytest

from gpudiag.probes.logs import tail
from gpudiag.probes.logs.tail import Position, Tail

MOST = 1 << 20


def add(path: Path, raw: bytes) -> None:
    with path.open("ab") as file:
        file.write(raw)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "log").write_bytes(b"one\n")
    return tmp_path / "log"


@pytest.fixture
def opened(path: Path) -> Tail:
    found = Tail(path)
    assert found.open()
    return found


def test_lines_are_given_once_and_whole(path: Path, opened: Tail) -> None:
    assert opened.read(MOST) == [b"one"]
    add(path, b"tw")
    assert opened.read(MOST) == []
    add(path, b"o\nthree\n")
    assert opened.read(MOST) == [b"two", b"three"]


def test_an_old_file_is_read_from_its_end(path: Path) -> None:
    of = path.stat()
    found = Tail(path, Position(of.st_dev, of.st_ino, of.st_size))
    found.open()
    add(path, b"two\n")
    assert found.read(MOST) == [b"two"]


def test_the_position_goes_on_before_a_line_without_end(path: Path, opened: Tail) -> None:
    add(path, b"hal")
    opened.read(MOST)
    add(path, b"f\n")
    after = Tail(path, opened.position)
    after.open()
    assert after.read(MOST) == [b"half"]


def test_another_file_of_that_name_begins_at_its_start(path: Path, opened: Tail) -> None:
    opened.read(MOST)
    path.rename(path.with_name("log.1"))
    path.write_bytes(b"one, but another\n")
    after = Tail(path, opened.position)
    after.open()
    assert after.read(MOST) == [b"one, but another"]


def test_a_rotated_file_is_told(path: Path, opened: Tail) -> None:
    assert not opened.replaced()
    path.rename(path.with_name("log.1"))
    assert opened.replaced()
    path.write_bytes(b"new\n")
    assert opened.replaced()


def test_a_truncated_file_is_read_from_its_start(path: Path, opened: Tail) -> None:
    add(path, b"and a longer one\n")
    opened.read(MOST)
    path.write_bytes(b"two\n")
    assert opened.read(MOST) == [b"two"]


def test_truncated_and_grown_beyond_in_between(path: Path, opened: Tail) -> None:
    opened.read(MOST)
    path.write_bytes(b"another text, longer than before\n")
    assert opened.read(MOST) == [b"another text, longer than before"]


def test_a_hole_at_the_start_is_no_line(path: Path, opened: Tail) -> None:
    opened.read(MOST)
    add(path, b"\0" * 5000 + b"after\n")
    assert opened.read(MOST) == [b"after"]


def test_progress_bars_and_utf16_are_read(path: Path, opened: Tail) -> None:
    opened.read(MOST)
    add(path, b" 10%\r 20%\r\n" + "héllo\n".encode("utf-16-le"))
    assert opened.read(MOST) == [b" 10%", b" 20%", b"h\xe9llo"]


def test_a_huge_line_is_cut_and_its_rest_passed_over(path: Path, opened: Tail) -> None:
    add(path, b"x" * 100_000)
    assert [len(line) for line in opened.read(MOST)] == [3, tail.MAX_LINE_BYTES]
    add(path, b"y" * 100_000 + b"\nnext\n")
    assert opened.read(MOST) == [b"next"]
    assert opened.cut == 1


def test_of_a_flood_the_newest_is_read(path: Path, opened: Tail) -> None:
    add(path, b"0123456789abcde\n" * (tail.MAX_BEHIND // 16 + 1000))
    lines = opened.read(1600)
    assert len(lines) == 99
    assert opened.skipped > tail.MAX_BEHIND - 1600
    assert opened.drained()


def test_a_read_is_bounded(path: Path, opened: Tail) -> None:
    add(path, b"two\nthree\n")
    assert opened.read(8) == [b"one", b"two"]
    assert not opened.drained()


def test_a_pipe_is_not_followed(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    assert not Tail(tmp_path / "pipe").open()


def test_the_last_line_needs_no_end(path: Path, opened: Tail) -> None:
    add(path, b"last words")
    opened.read(MOST)
    assert opened.close() == [b"last words"]
