from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpudiag.agent.doctor.container_logs import missing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """As the kubelet lays it out: links in one folder, files in another."""
    made = tmp_path / "containers"
    made.mkdir()
    (tmp_path / "pods").mkdir()
    for name in ("a", "b"):
        (tmp_path / "pods" / name).write_text("line\n")
        (made / f"{name}.log").symlink_to(tmp_path / "pods" / name)
    return made


def test_links_that_lead_to_files_are_enough(folder: Path) -> None:
    assert missing([folder, folder.parent / "docker"]) == ""


def test_no_folder(tmp_path: Path) -> None:
    assert missing([tmp_path / "containers"]) == f"no {tmp_path}/containers"


def test_links_alone_are_not_enough(folder: Path) -> None:
    """Where /var/log/containers is mounted and /var/log/pods is not."""
    (folder.parent / "pods").rename(folder.parent / "elsewhere")
    why = missing([folder])
    assert f"{folder.parent}/pods/" in why
    assert "mount that as well" in why


def test_one_container_that_has_gone_is_no_fault(folder: Path) -> None:
    (folder.parent / "pods/a").unlink()
    assert missing([folder]) == ""


def test_a_file_of_others_is_told_with_its_group(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "pods/a").chmod(0o640)
    (folder / "b.log").unlink()

    def shut(path: Path, flags: int) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    # The tests may run as root, for whom no file is shut.
    monkeypatch.setattr(os, "open", shut)
    why = missing([folder])
    assert f"{folder.parent}/pods/a (user {os.getuid()}, group " in why
    assert "-rw-r-----" in why


def test_no_container_yet_is_no_fault(tmp_path: Path) -> None:
    assert missing([tmp_path]) == ""
