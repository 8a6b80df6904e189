from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gpudiag.probes.kept_file import KeptFile


def test_each_read_gives_the_contents_of_now(tmp_path: Path) -> None:
    path = tmp_path / "value"
    path.write_text("1\n")
    file = KeptFile(path)
    assert file.number() == 1.0
    path.write_text("27\n")
    assert (file.number(), file.read()) == (27.0, "27\n")


@pytest.mark.parametrize("text", ["", "max\n", "N/A (no PMA)\n"])
def test_what_is_no_number_is_absent(tmp_path: Path, text: str) -> None:
    (tmp_path / "value").write_text(text)
    assert KeptFile(tmp_path / "value").number() is None


def test_what_is_not_there_is_absent_until_it_comes(tmp_path: Path) -> None:
    file = KeptFile(tmp_path / "value")
    assert file.read() is None
    (tmp_path / "value").write_text("5")
    assert file.number() == 5.0


def failing(monkeypatch: pytest.MonkeyPatch, code: int, times: int) -> None:
    real, left = os.pread, [code] * times

    def pread(fd: int, size: int, offset: int) -> bytes:
        if left:
            raise OSError(left.pop(), "made to fail")
        return real(fd, size, offset)

    monkeypatch.setattr("gpudiag.probes.kept_file.os.pread", pread)


def test_a_device_that_came_back_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "value").write_text("5")
    file = KeptFile(tmp_path / "value")
    file.read()
    failing(monkeypatch, errno.ENODEV, 1)
    assert file.number() == 5.0


def test_a_broken_device_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "value").write_text("5")
    failing(monkeypatch, errno.EIO, 1)
    assert KeptFile(tmp_path / "value").read() is None


def test_the_agents_own_trouble_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "value").write_text("5")
    failing(monkeypatch, errno.EMFILE, 1)
    with pytest.raises(OSError, match="made to fail"):
        KeptFile(tmp_path / "value").read()
