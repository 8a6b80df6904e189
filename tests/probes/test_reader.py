"""The parent's side of a reader child, over children of a few lines."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gpudiag.probes.frames import Frame
from gpudiag.probes.reader import Notice, Reader
from tests.running import PATIENCE

PROLOGUE = """
import os, signal, sys, time
from gpudiag.probes.frames import DOING, pack
def say(kind, text=b""):
    os.write(1, pack(kind, text))
"""
Make = Callable[..., Reader]


@pytest.fixture
def make() -> Iterator[Make]:
    readers: list[Reader] = []

    def begin(code: str, kind: str = "test", **options: Any) -> Reader:
        argv = [sys.executable, "-c", PROLOGUE + code]
        fast = {"deadline": 30.0, "start_deadline": 60.0, "backoff": (0.05, 0.4)}
        readers.append(Reader(kind, lambda: argv, **{**fast, **options}))
        return readers[-1]

    yield begin
    for reader in readers:
        pid = reader.pid
        reader.close()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL) if pid else None


def collect(
    reader: Reader, enough: Callable[[list[Frame], list[Notice]], bool], seconds: float = PATIENCE
) -> tuple[list[Frame], list[Notice]]:
    frames: list[Frame] = []
    notices: list[Notice] = []
    end = time.monotonic() + seconds
    while not enough(frames, notices):
        assert time.monotonic() < end, (frames, notices)
        more = reader.poll()
        frames += more[0]
        notices += more[1]
        time.sleep(0.01)
    return frames, notices


def notice(what: str) -> Callable[[list[Frame], list[Notice]], bool]:
    return lambda frames, notices: any(n.what == what for n in notices)


def test_frames_arrive_in_order(make: Make) -> None:
    reader = make("for n in range(3): say(1, b'%d' % n)\ntime.sleep(60)")
    frames, _ = collect(reader, lambda got, _: len(got) == 3)
    assert frames == [Frame(1, b"0"), Frame(1, b"1"), Frame(1, b"2")]


def test_last_words_of_a_child_that_ends_are_heard(make: Make) -> None:
    frames, notices = collect(make("say(1, b'bye'); sys.exit(3)"), notice("ended"))
    assert frames[0] == Frame(1, b"bye")
    assert notices[0].status == 3


def test_large_frames(make: Make) -> None:
    code = "m = pack(2, b'x' * 3000000)\nwhile m: m = m[os.write(1, m):]\ntime.sleep(60)"
    frames, _ = collect(make(code), lambda got, _: bool(got))
    assert len(frames[0].payload) == 3000000


def test_silence_is_a_wedge_told_once(make: Make) -> None:
    reader = make("say(1)\ntime.sleep(600)", deadline=0.4, kill=lambda pid, number: None)
    _, notices = collect(reader, notice("wedged"))
    assert reader.wedged
    assert notices[0].seconds >= 0.4
    time.sleep(0.6)
    assert reader.poll() == ([], [])


def test_silent_child_is_killed_once(make: Make) -> None:
    sent: list[int] = []
    kill = lambda pid, number: sent.append(number)  # noqa: E731
    reader = make("say(1)\ntime.sleep(600)", deadline=0.4, kill=kill)
    collect(reader, notice("wedged"))
    for _ in range(20):
        reader.poll()
        time.sleep(0.02)
    assert sent == [signal.SIGKILL]


def test_child_that_goes_on_is_recovered(make: Make, tmp_path: Path) -> None:
    go = tmp_path / "go"
    code = f"say(1)\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
    reader = make(code + "say(1)\ntime.sleep(600)", deadline=0.4, kill=lambda pid, number: None)
    began = time.monotonic()
    collect(reader, notice("wedged"))
    go.touch()
    _, notices = collect(reader, notice("recovered"))
    assert 0.4 < notices[0].seconds <= time.monotonic() - began
    assert not reader.wedged


def test_sign_of_life_without_result_is_no_recovery(make: Make) -> None:
    reader = make("say(DOING, b'first')\ntime.sleep(60)", start_deadline=0.4)
    collect(reader, lambda _, notices: [n.what for n in notices].count("ended") == 2)
    assert reader.wedged


def test_start_has_a_longer_deadline(make: Make) -> None:
    reader = make("say(DOING)\ntime.sleep(1)\nsay(1)\ntime.sleep(600)", deadline=0.4)
    _, notices = collect(reader, lambda frames, _: Frame(1, b"") in frames)
    assert notices == []


def test_pause_between_children_doubles(make: Make) -> None:
    reader = make("sys.exit(1)", backoff=(0.2, 0.4))
    began = time.monotonic()
    collect(reader, lambda _, notices: len(notices) == 4)
    assert time.monotonic() - began > 0.2 + 0.4 + 0.4


def test_one_child_per_kind_even_after_close(make: Make) -> None:
    code = "say(1)\ntime.sleep(60)"
    first = make(code, kill=lambda pid, number: None)
    collect(first, lambda got, _: bool(got))
    pid = first.pid or 0
    first.close()
    second, other = make(code), make(code, kind="other")
    second.poll()
    other.poll()
    assert second.pid is None
    assert other.pid is not None
    os.kill(pid, signal.SIGKILL)
    collect(second, lambda got, _: bool(got))


def test_close_abandons_what_cannot_die(make: Make) -> None:
    reader = make("say(1)\ntime.sleep(6000)", kill=lambda pid, number: None)
    collect(reader, lambda got, _: bool(got))
    pid = reader.pid or 0
    reader.close()
    assert reader.poll() == ([], [])
    os.kill(pid, signal.SIGKILL)


def test_close_ends_a_child_that_ignores_sigterm(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpudiag.probes.reader._CLOSE_SECONDS", 3.0)
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nsay(1)\ntime.sleep(60)"
    reader = make(code)
    collect(reader, lambda got, _: bool(got))
    pid = reader.pid or 0
    reader.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
