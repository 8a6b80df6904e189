from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudiag.probes.disks import Space
from gpudiag.probes.remote_space import DEADLINE_SECONDS, FRESH_SECONDS, RemoteSpace


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


# Answers for /a, then hangs on /b unless it was told that /b hung before.
CHILD = """
import os, sys, time
from gpudiag.probes.frames import pack
write = lambda *frame: os.write(1, pack(*frame))
write(1, b"/a"); write(2, b'["/a", 10.0, 4.0]')
if "/b" in sys.argv:
    write(2, b'["/c", 20.0, 8.0]')
else:
    write(1, b"/b")
time.sleep(600)
"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def space(clock: Clock) -> Iterator[RemoteSpace]:
    found = RemoteSpace(clock=clock, argv=(sys.executable, "-c", CHILD))
    yield found
    found.close()


def until(condition: Callable[[], object]) -> object:
    end = time.monotonic() + 120
    while time.monotonic() < end:
        found = condition()
        if found is not None:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come")


def test_an_answer_is_given_until_it_is_old(space: RemoteSpace, clock: Clock) -> None:
    assert until(lambda: space("/a")) == Space(10.0, 4.0)
    clock.now += FRESH_SECONDS + 1
    assert space("/a") is None


def test_a_mount_that_never_answered_is_absent(space: RemoteSpace) -> None:
    until(lambda: space("/a"))
    assert space("/b") is None


def test_a_child_that_hangs_is_replaced_and_told_where(space: RemoteSpace, clock: Clock) -> None:
    until(lambda: space("/a"))
    clock.now += DEADLINE_SECONDS + 1

    def later() -> Space | None:
        # As time goes by: a child is given as long to begin as it would be.
        clock.now += 0.02
        return space("/c")

    assert until(later) == Space(20.0, 8.0)


def test_the_real_child_answers_for_a_mount(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 0:40 / {tmp_path} rw - nfs4 10.0.0.1:/export rw\n")
    remote = RemoteSpace(table)
    found = until(lambda: remote(str(tmp_path)))
    remote.close()
    assert isinstance(found, Space)
    assert 0 < found.available <= found.size
