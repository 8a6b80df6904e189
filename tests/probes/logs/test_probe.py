"""The probe over real files: what is told, once, and what a restart remembers."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudiag.probes import Event, Sample
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.logs.probe import Logs

HERE = Path(__file__).parent / "torchrun"
ID = "0123456789abcdef" * 4


class Reader:
    """A probe over `folder` and the time, of which each read takes six seconds."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.now = 1_800_000_000.0
        files = [f"{folder}/**/*.log"]
        self.probe = Logs(files, state=folder / "p.json", clock=lambda: self.now, **options)  # type: ignore[arg-type]
        self.read()

    def read(self) -> list[Event]:
        self.now += 6.0
        return [record for record in self.probe.read() if isinstance(record, Event)]

    def lines(self) -> list[str]:
        return [event.line for event in self.read()]


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    (tmp_path / "old.log").write_text("KeyError: 'old'\n")
    return Reader(tmp_path)


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_an_old_log_tells_only_what_is_new(reader: Reader, tmp_path: Path) -> None:
    add(tmp_path / "old.log", "KeyError: 'new'\nstep 4\n")
    (event,) = reader.read()
    assert (event.source, event.type, event.line) == ("log:old", "error", "KeyError: 'new'")
    assert reader.read() == []


def test_a_new_log_is_told_from_its_start(reader: Reader, tmp_path: Path) -> None:
    (tmp_path / "late.log").write_text("KeyError: 'x'\n")
    assert reader.lines() == ["KeyError: 'x'"]


def test_nothing_is_lost_when_a_log_is_rotated(reader: Reader, tmp_path: Path) -> None:
    add(tmp_path / "old.log", "KeyError: 'last'")
    (tmp_path / "old.log").rename(tmp_path / "old.log.1")
    (tmp_path / "old.log").write_text("KeyError: 'first'\n")
    assert reader.lines() + reader.lines() == ["KeyError: 'last'", "KeyError: 'first'"]


def test_what_came_while_the_agent_was_down_is_told(reader: Reader, tmp_path: Path) -> None:
    reader.probe.close()
    add(tmp_path / "old.log", "KeyError: 'b'\n")
    (tmp_path / "other.log").write_text("KeyError: 'c'\n")
    again = Logs([f"{tmp_path}/**/*.log"], state=tmp_path / "p.json", clock=lambda: 2e9)
    assert sorted(r.line for r in again.read() if isinstance(r, Event)) == [
        "KeyError: 'b'",
        "KeyError: 'c'",
    ]


def test_a_deleted_log_is_let_go(reader: Reader, tmp_path: Path) -> None:
    add(tmp_path / "old.log", "KeyError: 'x'\n")
    (tmp_path / "old.log").unlink()
    assert reader.lines() == ["KeyError: 'x'"]
    assert counter(reader, "gpudiag_log_files") == 0.0


def counter(reader: Reader, name: str) -> float:
    samples = [r for r in reader.probe.read() if isinstance(r, Sample)]
    return next(s.value for s in samples if s.metric == name)


def test_what_may_not_be_read_is_counted(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.log").write_text("KeyError: 'x'\n")
    real = __import__("os").open

    def refuse(path: Path, *rest: int) -> int:
        if Path(path).name == "secret.log":
            raise PermissionError(13, "Permission denied")
        return int(real(path, *rest))

    monkeypatch.setattr("gpudiag.probes.logs.tail.os.open", refuse)
    assert reader.read() == []
    assert counter(reader, "gpudiag_log_files_unreadable") == 1.0


def test_a_container_s_lines_keep_their_time(tmp_path: Path) -> None:
    folder = tmp_path / "containers"
    folder.mkdir()
    one = Logs(containers=[folder], clock=lambda: 1777888900.0)
    one.read()
    text = "2026-05-04T10:00:00Z stderr P KeyErr\n2026-05-04T10:00:00Z stderr F or: 'x'\n"
    (folder / f"vllm-0_ml_engine-{ID}.log").write_text(text)
    one._looked = 0.0
    (event,) = (r for r in one.read() if isinstance(r, Event))
    assert (event.source, event.line, event.time) == ("log:vllm-0", "KeyError: 'x'", 1777888800.0)
    assert event.fields["namespace"] == "ml"


def test_torchrun_s_block_tells_the_first_failure_and_no_bare_exit(
    reader: Reader, tmp_path: Path
) -> None:
    shutil.copy(HERE / "console.txt", tmp_path / "console.log")
    events = [event for _ in range(5) for event in reader.read()]
    assert [(e.type, e.fields.get("rank")) for e in events] == [
        ("exit", "1"),
        ("error", "1"),
        ("exit", "0"),
    ]


def test_an_exit_without_a_block_is_told_after_a_while(reader: Reader, tmp_path: Path) -> None:
    add(tmp_path / "old.log", "api.py:882] failed (exitcode: -9) local_rank: 2 (pid: 42)\n")
    assert reader.read() == []
    events = [event for _ in range(4) for event in reader.read()]
    assert [(e.type, e.fields["code"]) for e in events] == [("exit", "-9")]


def test_a_rank_s_error_file_is_told_with_its_time(reader: Reader, tmp_path: Path) -> None:
    folder = tmp_path / "none_x/attempt_0/1"
    folder.mkdir(parents=True)
    (folder / "stderr.log").touch()
    shutil.copy(HERE / "error.json", folder)
    reader.now = 1796108600.0
    (event,) = reader.read()
    assert (event.source, event.fields["local_rank"]) == ("log:train", "1")
    assert event.time == 1796108585.0
    assert reader.read() == []


def test_new_dumps_are_judged(tmp_path: Path) -> None:
    seen: list[Path] = []

    def judge(paths):
        seen.extend(paths)
        return [("Collective 4 timed out: rank 1 never entered", {"cause": "hung-collective"})]

    dumps = tmp_path / "dumps"
    dumps.mkdir()
    one = Reader(tmp_path, dumps=dumps, judge=judge)
    (dumps / "trace_0").write_bytes(b"x")
    assert one.read() == []
    (event,) = one.read()
    assert (event.source, event.type) == ("log:flight-recorder", "flight_recorder")
    assert seen == [dumps / "trace_0"]


def test_without_logs_it_is_not_there() -> None:
    with pytest.raises(Unavailable, match=r"probes\.logs\.files"):
        Logs().read()


def test_a_flood_is_bounded_and_counted(reader: Reader, tmp_path: Path) -> None:
    add(tmp_path / "old.log", "KeyError: 'x'\n" * 10_000)
    assert len(reader.read()) < 50
    assert counter(reader, "gpudiag_log_lines_dropped_total") > 9_000


def noise(count: int) -> Callable[[], bytes]:
    import random

    dice = random.Random(3)
    return lambda: dice.randbytes(count)


@pytest.mark.parametrize("rounds", [5, pytest.param(100, marks=pytest.mark.long)])
def test_binary_garbage_hurts_nothing(reader: Reader, tmp_path: Path, rounds: int) -> None:
    more = noise(100_000)
    for _ in range(rounds):
        with (tmp_path / "old.log").open("ab") as file:
            file.write(more())
        reader.read()
    add(tmp_path / "old.log", "\nKeyError: 'after'\n")
    assert "KeyError: 'after'" in reader.lines()
