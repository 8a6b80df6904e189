from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpudiag.probes.torch.guard import FAILURES, guarded
from gpudiag.probes.torch.imports import when_imported
from gpudiag.probes.torch.patches import Patches
from gpudiag.probes.torch.wire import LIMIT, decode, encode, metrics


def test_errors_stay_inside_and_are_told_once() -> None:
    @guarded
    def fails() -> int:
        raise ValueError("why")

    assert [fails(), fails()] == [None, None]
    assert [line.endswith("fails: ValueError: why") for line in FAILURES.untold] == [True]
    assert list(FAILURES.counts.values()) == [2]
    FAILURES.counts.clear()


def test_a_wish_to_exit_passes() -> None:
    @guarded
    def leaves() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        leaves()


def test_a_patch_that_somebody_wrapped_is_left_in_place() -> None:
    owner = SimpleNamespace(first=1, second=2)
    patches = Patches()
    patches.replace(owner, "first", lambda old: old + 10)
    patches.replace(owner, "second", lambda old: old + 10)
    patches.replace(owner, "third", lambda old: old)
    owner.second = 99
    patches.undo()
    assert vars(owner) == {"first": 1, "second": 99}


def test_an_import_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpudiag_waited.py").write_text("value = 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen: list[Any] = []
    before = list(sys.meta_path)
    when_imported("gpudiag_waited", lambda module: seen.append(module.value))
    assert seen == []
    import gpudiag_waited  # type: ignore[import-not-found]

    assert (seen, gpudiag_waited.value, sys.meta_path) == ([5], 5, before)


def test_what_is_imported_already_is_not_waited_for() -> None:
    seen: list[str] = []
    assert when_imported("json", lambda module: seen.append(module.__name__)) is None
    assert seen == ["json"]


def test_a_value_that_is_not_finite_is_not_sent() -> None:
    packet = metrics(1.0, [("a", {}, float("nan")), ("b", {}, 2.0)])
    assert packet["values"] == [("b", {}, 2.0)]


def test_packets_are_one_object_of_bounded_size() -> None:
    assert encode({"line": "x" * LIMIT}) is None
    assert decode(encode({"kind": "bye"}) or b"") == {"kind": "bye"}
    assert decode(b"\xff") is decode(b"3") is None
