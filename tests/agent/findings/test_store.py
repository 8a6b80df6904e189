import shutil
import sqlite3
import stat
import time

import pytest

from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.findings.store import KEPT_SECONDS, Store
from gpudiag.agent.rules.contract import Evidence, subject


def finding(state="firing", raised_at=10.0, resolved_at=None):
    return Finding(
        symptom="thermal-throttle",
        subject=subject(uuid="GPU-1"),
        cause="thermal-throttle",
        confidence=0.9,
        severity="warning",
        state=state,
        since=1.0,
        raised_at=raised_at,
        resolved_at=resolved_at,
        summary="hot",
        evidence=(Evidence("gpudiag_gpu_temperature_celsius", 91.0, "celsius"),),
    )


def test_a_firing_finding_survives_without_a_close(tmp_path):
    Store(tmp_path / "f.db").save([finding()], 10)
    assert Store(tmp_path / "f.db").firing() == [finding()]


def test_a_resolved_one_is_history_and_not_carried_over(tmp_path):
    store = Store(tmp_path / "f.db")
    store.save([finding()], 10)
    store.save([finding("resolved", resolved_at=20.0)], 20)
    again = Store(tmp_path / "f.db")
    assert again.firing() == []
    assert [f.state for f in again.between(15, 16)] == ["resolved"]
    assert again.between(30, 40) == []


def test_history_ends_after_thirty_days(tmp_path):
    store = Store(tmp_path / "f.db")
    store.save([finding("resolved", resolved_at=20.0)], 20)
    store.save([finding(raised_at=21.0)], 21 + KEPT_SECONDS)
    assert [f.raised_at for f in store.between(0, 1e12)] == [21.0]


@pytest.mark.parametrize(
    "garbage", [b"not a database, but long enough to be read as one" * 20, b"\0" * 5000]
)
def test_a_corrupted_file_is_moved_aside_and_said(tmp_path, caplog, garbage):
    (tmp_path / "f.db").write_bytes(garbage)
    store = Store(tmp_path / "f.db")
    store.save([finding()], 10)
    assert len(list(tmp_path.glob("f.db.corrupt-*"))) == 1
    assert "moved it" in caplog.text
    assert Store(tmp_path / "f.db").firing() == [finding()]


def test_the_file_is_its_owners_alone(tmp_path):
    Store(tmp_path / "f.db")
    assert stat.S_IMODE((tmp_path / "f.db").stat().st_mode) == 0o600


def test_what_a_full_disk_refused_is_saved_later(tmp_path):
    store = Store(tmp_path / "f.db")
    assert store._db
    store._db.execute("PRAGMA query_only=1")
    store.save([finding()], 10)
    assert "cannot save" in store.trouble
    store._db.execute("PRAGMA query_only=0")
    store.save([], 11)
    assert store.trouble == ""
    assert Store(tmp_path / "f.db").firing() == [finding()]


def test_a_folder_in_its_place_is_moved_aside(tmp_path):
    (tmp_path / "f.db").mkdir()
    Store(tmp_path / "f.db").save([finding()], 10)
    assert Store(tmp_path / "f.db").firing() == [finding()]


def test_a_file_that_somebody_holds_is_neither_broken_nor_waited_for(tmp_path):
    Store(tmp_path / "f.db").close()
    holder = sqlite3.connect(tmp_path / "f.db", isolation_level=None)
    holder.execute("PRAGMA locking_mode=EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    store = Store(tmp_path / "f.db")
    store.save([finding()], 10)
    assert "locked" in store.trouble
    # A fifth of a second at each try; sqlite's own limit would be five.
    assert time.monotonic() - began < 5.0
    holder.close()
    store.save([], 11)
    assert Store(tmp_path / "f.db").firing() == [finding()]


def test_a_folder_that_cannot_be_made_costs_no_start(tmp_path):
    (tmp_path / "state").write_text("a file where a folder should be")
    store = Store(tmp_path / "state" / "f.db")
    store.save([finding()], 10)
    assert "kept in memory" in store.trouble


def test_a_deleted_file_is_made_again_with_all_that_fires(tmp_path):
    store = Store(tmp_path / "state" / "f.db")
    store.save([finding()], 10)
    shutil.rmtree(tmp_path / "state")
    store.save([], 11)
    assert Store(tmp_path / "state" / "f.db").firing() == [finding()]
