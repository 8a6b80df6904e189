from __future__ import annotations

import pytest

from gpudiag.agent.actions.leases import FileLease, NoLease


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def two(tmp_path, clock):
    return [FileLease(tmp_path, name, lambda: clock[0]) for name in ("n1", "n2")]


def test_one_holds_it_and_may_renew(two):
    one, other = two
    assert one.hold("job=a", 60.0)
    assert not other.hold("job=a", 60.0)
    assert one.hold("job=a", 60.0)
    assert other.hold("job=b", 60.0)


def test_it_runs_out(two, clock):
    one, other = two
    one.hold("job=a", 60.0)
    clock[0] += 61.0
    assert other.hold("job=a", 60.0)


def test_what_is_given_back_is_free_and_anothers_is_not_given_back(two):
    one, other = two
    one.hold("job=a", 60.0)
    other.release("job=a")
    assert not other.hold("job=a", 60.0)
    one.release("job=a")
    assert other.hold("job=a", 60.0)


@pytest.mark.parametrize("text", ["{", "[]", '{"holder": "n9"}', '{"holder": 1, "until": "x"}'])
def test_what_cannot_be_read_is_held_by_somebody(two, tmp_path, text):
    two[0].hold("job=a", 60.0)
    (file,) = tmp_path.iterdir()
    file.write_text(text)
    assert not two[0].hold("job=a", 60.0)


def test_a_folder_that_refuses_gives_nothing(tmp_path, clock):
    (tmp_path / "file").write_text("")
    assert not FileLease(tmp_path / "file", "n1", lambda: clock[0]).hold("job=a", 60.0)


def test_alone_it_is_always_ones_own():
    assert NoLease().hold("job=a", 60.0)
