import os
import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest

from gpudiag.agent.window import Window, schema
from gpudiag.agent.window.archive import Archive, Batch
from gpudiag.probes import Event, Sample, labels

A = labels(gpu="0")
START = 1.7e9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "window.db"


@pytest.fixture
def told() -> list[str]:
    return []


def opened(path: Path, told: list[str], now: float = START, **kinds: int) -> Window:
    window = Window({"x_total"}, trends={"m"}, archive=Archive(path, report=told.append, **kinds))
    window.restore(now)
    return window


def run(window: Window, start: float, end: float, step: float = 10.0) -> None:
    for time in np.arange(start, end, step):
        window.now = float(time)
        since = float(time) - START
        window.add([Sample("m", A, window.now, since), Sample("x_total", A, window.now, since)])
        window.save()


def test_memory_holds_a_quarter_and_a_query_the_whole_two_hours(
    path: Path, told: list[str]
) -> None:
    window = opened(path, told)
    run(window, START, START + 3 * 3600.0)
    raw = window._tables["m"].raw
    assert raw is not None
    assert len(raw.times) < 160
    times = window.series("m", 7200.0)[0].times
    assert np.diff(times).tolist() == [10.0] * 720
    assert told == []


def test_minutes_of_two_days_are_whole_though_memory_holds_two_hours(
    path: Path, told: list[str]
) -> None:
    window = opened(path, told)
    run(window, START, START + 50 * 3600.0, 30.0)
    minutes = window._tables["m"].minutes
    assert minutes is not None
    assert len(minutes.grids["max"].times) < 60 * 4
    (series,) = window.minutes("m", 48 * 3600.0, "max")
    assert np.diff(series.times).tolist() == [60.0] * (48 * 60 - 1)
    assert np.diff(series.values).tolist() == [60.0] * (48 * 60 - 1)


def test_a_killed_window_goes_on_with_at_most_a_minute_lost(path: Path, told: list[str]) -> None:
    run(opened(path, told), START, START + 2000.0)
    again = opened(path, told, START + 2010.0)
    run(again, START + 2010.0, START + 2100.0)
    times = again.series("m", 7200.0)[0].times - START
    assert times[0] == 0.0
    assert np.diff(times).max() <= 70.0
    assert (np.diff(times) > 0.0).all()


def test_a_closed_window_loses_nothing(path: Path, told: list[str]) -> None:
    window = opened(path, told)
    run(window, START, START + 5000.0)
    before = window.series("m", 7200.0)[0], window.minutes("m", 7200.0)[0]
    window.close()
    again = opened(path, told, window.now)
    after = again.series("m", 7200.0)[0], again.minutes("m", 7200.0)[0]
    for was, now in zip(before, after, strict=True):
        np.testing.assert_array_equal(now.times, was.times)
        np.testing.assert_array_equal(now.values, was.values)


def test_a_counter_that_began_anew_while_away_is_bridged(path: Path, told: list[str]) -> None:
    window = opened(path, told)
    run(window, START, START + 100.0)
    window.close()
    again = opened(path, told, START + 110.0)
    again.add([Sample("x_total", A, START + 110.0, 7.0)])
    assert again.increase("x_total", 600.0)[0].value == 90.0 + 7.0


def test_a_series_that_vanished_while_away_was_still_seen(path: Path, told: list[str]) -> None:
    window = opened(path, told)
    run(window, START, START + 100.0)
    window.close()
    again = opened(path, told, START + 7000.0)
    assert again.seen("m") == [dict(A)]
    assert again.latest("m") == []


def test_events_last_and_a_log_read_anew_repeats_none(path: Path, told: list[str]) -> None:
    xid = Event(START, "kmsg", "NVRM: Xid 79", "xid", {"code": "79"})
    window = opened(path, told)
    window.add([], [xid, xid])
    window.close()
    again = opened(path, told, START + 60.0)
    again.add([], [xid, xid, Event(START + 50.0, "kmsg", xid.line, "xid")])
    found = again.events(600.0)
    assert [e.time - START for e in found] == [0.0, 0.0, 50.0]
    assert found[0] == xid


def test_a_clock_jump_is_remembered_over_a_restart(path: Path, told: list[str]) -> None:
    window = opened(path, told)
    run(window, START, START + 1500.0)
    window.rebase(3600.0)
    window.add([], [Event(START + 5080.0, "kmsg", "after")])
    window.close()
    again = opened(path, told, window.now)
    assert again.latest("m")[0].time == START + 1490.0 + 3600.0
    assert len(again.series("m", 7200.0)[0].times) == 150
    assert again.events(60.0)[0].time == START + 5080.0


def test_the_file_and_its_logs_are_private(path: Path, told: list[str]) -> None:
    run(opened(path, told), START, START + 100.0)
    modes = {f.name: stat.S_IMODE(f.stat().st_mode) for f in path.parent.iterdir()}
    assert set(modes) >= {"window.db", "window.db-wal"}
    assert set(modes.values()) == {0o600}


def test_a_damaged_file_is_moved_aside_and_said_so(path: Path, told: list[str]) -> None:
    path.write_bytes(b"this is no database at all" * 100)
    window = opened(path, told)
    run(window, START, START + 100.0)
    assert (path.parent / f"window.db.corrupt-{START:.0f}").exists()
    assert "moved to" in told[0]
    window.close()
    assert len(opened(path, told, window.now).series("m", 600.0)[0].times) == 10


def test_a_file_damaged_while_open_costs_only_what_was_in_it(path: Path, told: list[str]) -> None:
    window = opened(path, told)
    run(window, START, START + 2000.0)
    archive = window._archive
    assert archive is not None
    archive.close()
    path.write_bytes(b"\xff" * path.stat().st_size)
    run(window, START + 2000.0, START + 2400.0)
    assert len(told) == 1
    assert len(window.series("m", 900.0)[0].times) == 91
    assert archive.error is None


def test_a_file_of_a_later_version_is_moved_aside(path: Path, told: list[str]) -> None:
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    opened(path, told)
    assert "schema version is 99" in told[0]


def test_an_older_version_is_migrated_and_keeps_its_history(
    path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    window = opened(path, told)
    run(window, START, START + 100.0)
    window.close()
    later = (*schema.MIGRATIONS, "ALTER TABLE event ADD COLUMN note TEXT;")
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    again = opened(path, told, window.now)
    assert len(again.series("m", 600.0)[0].times) == 10
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()


def test_a_migration_that_fails_leaves_the_version_as_it_was(
    path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(path, told).close()
    broken = (*schema.MIGRATIONS, "CREATE TABLE new (a); CREATE TABLE head (b);")
    monkeypatch.setattr(schema, "MIGRATIONS", broken)
    with pytest.raises(sqlite3.OperationalError):
        schema.open_file(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'new'").fetchall() == []
    db.close()


def test_without_a_place_to_save_two_hours_are_held_in_memory(
    tmp_path: Path, told: list[str]
) -> None:
    (tmp_path / "no").write_text("a file where a folder should be")
    window = opened(tmp_path / "no" / "window.db", told)
    run(window, START, START + 3 * 3600.0)
    assert len(window.series("m", 7200.0)[0].times) == 721
    assert window._archive is not None
    assert "held in memory only" in (window._archive.error or "")
    assert len(told) == 1


def test_a_full_disk_is_said_and_all_is_saved_when_there_is_room(
    path: Path, told: list[str]
) -> None:
    window = opened(path, told)
    run(window, START, START + 100.0)
    archive = window._archive
    assert archive is not None
    assert archive._db is not None
    archive._db.execute("PRAGMA max_page_count = 1")
    window.add([], [Event(START, "kmsg", os.urandom(2000).hex()) for _ in range(50)])
    window.tidy()
    window.save()
    assert "full" in told[0]
    assert archive.error == told[0]
    run(window, START + 100.0, START + 200.0)
    assert archive.error is None
    window.close()
    again = opened(path, told, window.now)
    assert len(again.series("m", 3600.0)[0].times) == 20
    assert len(again.events(3600.0)) == 50


def test_damaged_entries_are_left_out_and_the_rest_is_used(path: Path, told: list[str]) -> None:
    window = opened(path, told)
    window.add([], [Event(START, "kmsg", "whole"), Event(START, "kmsg", "torn")])
    run(window, START, START + 1000.0)
    window.close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE event SET data = x'ff' WHERE id = 2")
        db.execute("UPDATE head SET data = x'ff' WHERE metric = 'x_total'")
        db.execute(
            "UPDATE chunk SET data = x'ff' WHERE metric = 'm' AND kind = 'raw' AND start <= ?",
            (START,),
        )
    db.close()
    again = opened(path, told, window.now)
    assert [event.line for event in again.events(3600.0)] == ["whole"]
    assert again.latest("x_total") == []
    assert again.series("m", 3600.0)[0].values[0] > 0.0
    assert len(told) == 3


def test_only_the_newest_damaged_file_is_kept(path: Path, told: list[str]) -> None:
    for at in (0.0, 500.0):
        path.write_bytes(b"no database" * 100)
        opened(path, told, START + at).close()
    aside = [f.name for f in path.parent.iterdir() if "corrupt" in f.name]
    assert aside == [f"window.db.corrupt-{START + 500:.0f}"]


def test_events_told_long_after_a_restart_are_new_ones(path: Path, told: list[str]) -> None:
    window = opened(path, told)
    window.add([], [Event(START, "kmsg", "line")])
    window.close()
    again = opened(path, told, START + 60.0)
    again.now = START + 700.0
    again.add([], [Event(START, "kmsg", "line")])
    assert len(again.events(3600.0)) == 2


def batch(number: int, size: int) -> Batch:
    chunk = ("raw", "m", float(number), os.urandom(size))
    return Batch(0.0, [chunk], [], [], {}, 0.0)


def test_the_oldest_history_leaves_when_the_budget_is_spent(path: Path) -> None:
    archive = Archive(path, budget=400_000)
    for number in range(100):
        assert archive.save(batch(number, 10_000), START)
    archive.close()
    assert path.stat().st_size < 600_000
    with sqlite3.connect(path) as db:
        starts = [row[0] for row in db.execute("SELECT start FROM chunk ORDER BY start")]
    db.close()
    assert starts[-1] == 99.0
    assert 25 <= len(starts) <= 40


def test_a_folder_in_the_place_of_the_file_is_moved_aside(path: Path, told: list[str]) -> None:
    path.mkdir()
    run(opened(path, told), START, START + 2000.0)
    assert len(list(path.parent.glob("window.db.corrupt-*"))) == 1
    assert path.is_file()


@pytest.mark.parametrize(
    "spoil", ["DROP TABLE head", "DROP TABLE chunk", "INSERT OR REPLACE INTO clock VALUES (0, 'x')"]
)
def test_a_file_whose_tables_are_wrong_costs_no_start(
    path: Path, told: list[str], spoil: str
) -> None:
    run(opened(path, told), START, START + 2000.0)
    with sqlite3.connect(path) as db:
        db.execute(spoil)
    again = opened(path, told, START + 2010.0)
    run(again, START + 2010.0, START + 2200.0)
    assert again._archive is not None
    assert again._archive.error is None


def test_a_file_that_somebody_deletes_is_made_again(path: Path, told: list[str]) -> None:
    window = opened(path, told)
    run(window, START, START + 500.0)
    path.unlink()
    run(window, START + 500.0, START + 2000.0)
    assert opened(path, told, START + 2010.0).series("m", 7200.0)
