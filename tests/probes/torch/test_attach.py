from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import gpudiag.probes.torch as gd
from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.guard import FAILURES, guarded
from tests.probes.torch.peer import Peer
from tests.probes.torch.training import data, train

TOUCHED = [
    (torch.Tensor, "backward"),
    (torch, "save"),
    (torch.nn.utils, "clip_grad_norm_"),
    (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__"),
]


def test_losses_are_bit_identical(peer: Peer) -> None:
    plain = train(workers=2)
    gd.attach(socket=peer.path)
    assert train(workers=2) == plain


def test_losses_are_bit_identical_under_compile(tmp_path: Path) -> None:
    plain = train(compiled=True)
    torch._dynamo.reset()
    gd.attach(socket=tmp_path / "nobody")
    assert train(compiled=True) == plain


def test_a_run_tells_who_it_is_and_what_it_measured(peer: Peer) -> None:
    gd.attach(socket=peer.path, job="small")
    train()
    gd.detach()
    packets = peer.to_the_end()
    assert packets[0]["kind"] == "hello"
    assert (packets[0]["job"], packets[0]["pid"]) == ("small", os.getpid())
    values = {v[0]: v[2] for p in packets if p["kind"] == "metrics" for v in p["values"]}
    assert values["gpudiag_train_steps_total"] == 12
    assert values["gpudiag_train_samples_total"] == 96
    for name in ("step", "data_wait", "compute", "gc_pause"):
        assert f"gpudiag_train_{name}_seconds" in values
    assert {"gpudiag_train_loss", "gpudiag_train_grad_norm"} <= set(values)
    assert "gpudiag_train_loader_queue_depth" not in values
    assert "gpudiag_train_comm_wait_seconds" not in values
    assert packets[-1] == {"kind": "bye", "reason": "clean", "line": ""}


def test_workers_have_a_queue(peer: Peer) -> None:
    gd.attach(socket=peer.path)
    iterator = iter(data(workers=2))
    for _ in range(3):
        next(iterator)
        gd.step()
    gd.detach()
    values = {v[0]: v[2] for p in peer.to_the_end() if "values" in p for v in p["values"]}
    assert values["gpudiag_train_loader_queue_capacity"] == 4
    assert 0 <= values["gpudiag_train_loader_queue_depth"] <= 4


def test_detach_leaves_torch_as_it_was(tmp_path: Path) -> None:
    before = [vars(owner)[name] for owner, name in TOUCHED]
    gd.attach(socket=tmp_path / "nobody")
    assert [vars(owner)[name] for owner, name in TOUCHED] != before
    gd.detach()
    assert [vars(owner)[name] for owner, name in TOUCHED] == before


def test_nested_attach_is_one_session(tmp_path: Path) -> None:
    gd.attach(socket=tmp_path / "nobody")
    session, once = CURRENT.session, torch.Tensor.backward
    gd.attach()
    assert CURRENT.session is session
    assert torch.Tensor.backward is once
    gd.detach()
    assert CURRENT.session is session
    gd.detach()
    gd.detach()
    assert CURRENT.session is None


def test_the_switch_turns_all_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUDIAG_DISABLE", "1")
    before = torch.Tensor.backward
    gd.attach()
    with gd.phase("rollout"):
        gd.step(loss=1.0)
        gd.observe(loss=2.0)
        gd.on("checkpoint", print)
    assert torch.Tensor.backward is before
    assert CURRENT.session is None


def test_a_manual_loop_marks_its_own_steps(peer: Peer) -> None:
    gd.attach(socket=peer.path)
    for _ in range(3):
        gd.step(loss=torch.tensor(0.5), tokens=64, samples=4)
    gd.detach()
    values = {v[0]: v[2] for p in peer.to_the_end() if "values" in p for v in p["values"]}
    assert values["gpudiag_train_steps_total"] == 3
    assert values["gpudiag_train_tokens_total"] == 192
    assert values["gpudiag_train_sequence_length"] == 16


def test_what_fails_is_told_once_and_raises_nothing(peer: Peer) -> None:
    gd.attach(socket=peer.path)
    for _ in range(3):
        guarded(lambda: 1 // 0)()
    told = peer.until(kind="event", type="hook_failed")
    assert "ZeroDivisionError" in told["line"]
    assert list(FAILURES.counts.values()) == [3]
    FAILURES.counts.clear()
