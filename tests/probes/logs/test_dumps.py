from pathlib import Path

from gpudiag.probes.logs.dumps import SETTLE_SECONDS, Dumps


def test_dumps_are_handed_on_once_when_all_are_written(tmp_path: Path) -> None:
    (tmp_path / "trace_9").write_bytes(b"old")
    one = Dumps(tmp_path)
    assert one.new(0.0) == []
    (tmp_path / "trace_0").write_bytes(b"a")
    assert one.new(10.0) == []
    (tmp_path / "trace_1.json").write_bytes(b"b")
    assert one.new(11.0) == []
    found = one.new(11.0 + SETTLE_SECONDS)
    assert [path.name for path in found] == ["trace_0", "trace_1.json"]
    assert one.new(60.0) == []


def test_a_dump_written_over_is_new(tmp_path: Path) -> None:
    (tmp_path / "trace_0").write_bytes(b"a")
    one = Dumps(tmp_path)
    one.new(0.0)
    (tmp_path / "trace_0").write_bytes(b"another")
    one.new(1.0)
    assert len(one.new(1.0 + SETTLE_SECONDS)) == 1


def test_other_files_and_empty_ones_are_no_dumps(tmp_path: Path) -> None:
    one = Dumps(tmp_path)
    one.new(0.0)
    (tmp_path / "README").write_bytes(b"x")
    (tmp_path / "trace_0").touch()
    one.new(1.0)
    assert one.new(60.0) == []
