from pathlib import Path

import pytest

from gpudiag.probes.logs.positions import Positions
from gpudiag.probes.logs.tail import Position

LOG = Path("/log/x")
AT = Position(1, 2, 300, "6f6e65")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    Positions(tmp_path / "p.json", ["a"]).save({LOG: AT}, [Path("/e.json")])
    return tmp_path / "p.json"


def test_they_are_read_as_they_were_saved(file: Path) -> None:
    assert Positions(file, ["a"]).known == {LOG: AT, Path("/e.json"): None}
    assert file.stat().st_mode & 0o777 == 0o600


def test_other_patterns_begin_anew(file: Path) -> None:
    assert Positions(file, ["b"]).known is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', "[" * 100_000])
def test_a_damaged_file_begins_anew(file: Path, text: str) -> None:
    file.write_text(text)
    assert Positions(file, ["a"]).known is None


def test_without_a_file_nothing_is_kept() -> None:
    one = Positions(None, [])
    one.save({LOG: AT}, [])
    assert one.known is None
