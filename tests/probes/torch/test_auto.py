from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.probes.torch.peer import Peer

ROOT = Path(__file__).parents[3]
SITE = "import gpudiag.probes.torch.auto as auto; auto.install()\n"
TRAIN = """
import torch
from torch.nn.utils import clip_grad_norm_
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    model(torch.zeros(2, 4)).sum().backward()
    clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
import gpudiag.probes.torch as gd
gd.attach(); gd.attach(); gd.detach()
"""


def started(folder: Path, peer: Peer, code: str, **environment: str) -> subprocess.Popen[bytes]:
    (folder / "sitecustomize.py").write_text(SITE)
    told = {**os.environ, "PYTHONPATH": str(folder), "GPUDIAG_SOCKET": str(peer.path)}
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, env=told | environment, stdin=subprocess.PIPE)


def run(folder: Path, peer: Peer, code: str, **environment: str) -> None:
    with started(folder, peer, code, **environment) as process:
        process.communicate()
    assert process.returncode == 0


def silent(peer: Peer) -> bool:
    peer._listening.settimeout(0.2)
    with pytest.raises(TimeoutError):
        peer.read()
    return True


def test_a_script_without_a_line_of_ours_is_watched(peer: Peer, tmp_path: Path) -> None:
    run(tmp_path, peer, TRAIN)
    packets = peer.to_the_end()
    values = {v[0]: v[2] for p in packets if "values" in p for v in p["values"]}
    assert values["gpudiag_train_steps_total"] == 5
    assert "gpudiag_train_grad_norm" in values
    assert packets[-1]["kind"] == "bye"


def test_a_process_that_never_trains_stays_silent(peer: Peer, tmp_path: Path) -> None:
    run(tmp_path, peer, "import torch; torch.zeros(3)")
    assert silent(peer)


def test_a_rank_says_hello_before_its_first_step(peer: Peer, tmp_path: Path) -> None:
    with started(tmp_path, peer, "import torch; input()", RANK="3", WORLD_SIZE="4") as process:
        hello = peer.read()
        process.communicate(b"\n")
    assert hello is not None
    assert hello["rank"] == 3


def test_the_switch_turns_it_off(peer: Peer, tmp_path: Path) -> None:
    run(tmp_path, peer, TRAIN, GPUDIAG_DISABLE="1")
    assert silent(peer)


def test_without_torch_nothing_is_imported(peer: Peer, tmp_path: Path) -> None:
    run(tmp_path, peer, "import sys; assert 'torch' not in sys.modules")
    assert silent(peer)
