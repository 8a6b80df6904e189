from __future__ import annotations

import sqlite3

import msgspec
import pytest

from gpudiag.agent.actions.ledger import KEPT_SECONDS, Entry, Ledger, Malformed
from tests.agent.actions.test_guard import plan


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "actions.db")


def entry(state="reserved", at=1.0, **of):
    return Entry(plan=plan(**of), state=state, at=at, severity="critical")


def test_it_is_its_owners_alone(ledger, tmp_path):
    assert ledger.entries() == []
    assert (tmp_path / "actions.db").stat().st_mode & 0o777 == 0o600


def test_the_same_plan_is_reserved_once(ledger):
    assert ledger.add(entry())
    assert not ledger.add(entry(at=2.0))
    assert [e.at for e in ledger.entries()] == [1.0]


def test_another_opening_finds_all(ledger, tmp_path):
    ledger.add(entry())
    ledger.put(entry("done", at=5.0))
    ledger.open_breaker("enough", 6.0)
    again = Ledger(tmp_path / "actions.db")
    assert [e.state for e in again.entries()] == ["done"]
    assert again.breaker() == "enough"


def test_the_breaker_stays_open_until_a_person_resets_it(ledger):
    ledger.open_breaker("first", 1.0)
    ledger.open_breaker("second", 2.0)
    assert ledger.breaker() == "first"
    ledger.reset_breaker()
    assert ledger.breaker() == ""


def test_what_is_open_is_never_forgotten(ledger):
    ledger.add(entry("started", name="a"))
    ledger.add(entry("verified", name="b"))
    ledger.add(entry("waiting", at=KEPT_SECONDS + 2.0, name="c"))
    assert [e.plan.id for e in ledger.entries()] == ["a", "c"]


@pytest.mark.parametrize("content", [b"not sqlite" * 200, b"SQLite format 3\0" + b"x" * 4000])
def test_a_foreign_file_stops_everything(tmp_path, content):
    path = tmp_path / "actions.db"
    path.write_bytes(content)
    with pytest.raises(Malformed, match="nothing is done"):
        Ledger(path).entries()
    assert path.read_bytes() == content


def test_a_newer_schema_stops_everything(tmp_path):
    with sqlite3.connect(tmp_path / "actions.db") as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(Malformed, match="newer gpudiag"):
        Ledger(tmp_path / "actions.db").breaker()


def test_a_row_that_is_no_entry_stops_everything(ledger, tmp_path):
    assert ledger.entries() == []
    with sqlite3.connect(tmp_path / "actions.db") as db:
        db.execute("INSERT INTO actions VALUES ('x', 'done', 1, '{}')")
    with pytest.raises(Malformed):
        ledger.entries()


def test_what_another_wrote_meanwhile_is_seen(ledger, tmp_path):
    ledger.add(entry(name="a"))
    assert len(ledger.entries()) == 1
    Ledger(tmp_path / "actions.db").add(entry(name="b"))
    assert [e.plan.id for e in ledger.entries()] == ["a", "b"]


def test_what_perhaps_was_done_and_carries_on_is_in_force_until_it_is_taken_back():
    kept = msgspec.structs.replace(plan(), carry=True)
    failed = msgspec.structs.replace(entry("failed"), plan=kept)
    assert failed.in_force
    assert not msgspec.structs.replace(failed, undone_at=2.0).in_force
    assert not msgspec.structs.replace(failed, state="refused").in_force
