from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from tests.probes.torch.peer import Peer
from tests.probes.torch.ranks import ranks

DDP = """
from torch.nn.parallel import DistributedDataParallel
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g):
        if rank == 1: time.sleep(0.05)
        return g
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)
    def forward(self, x): return self.b(Slow.apply(self.a(x)))
gd.attach()
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(40):
    model(torch.randn(4, 32)).sum().backward()
    optimizer.step(); optimizer.zero_grad()
"""
FSDP = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Linear(32, 32))
fully_shard(model, mesh=init_device_mesh("cpu", (2,), mesh_dim_names=("dp_shard",)))
gd.attach(model)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(8):
    model(torch.randn(4, 32)).sum().backward()
    optimizer.step(); optimizer.zero_grad(set_to_none=False)
gd.detach()
"""
STUCK = """
gd.attach()
for _ in range(3):
    gd.step()
    dist.all_reduce(torch.ones(1))
if rank == 1: time.sleep(60)
dist.all_reduce(torch.ones(1))
"""

Packets = list[dict[str, Any]]


def series(packets: Packets, name: str) -> list[tuple[dict[str, str], float]]:
    return [(v[1], v[2]) for p in packets if "values" in p for v in p["values"] if v[0] == name]


@pytest.fixture(scope="module")
def ddp(tmp_path_factory: pytest.TempPathFactory) -> list[Packets]:
    """What the ranks of a DDP run send whose rank 1 is 50 ms late inside backward."""
    with ranks(tmp_path_factory.mktemp("ddp"), DDP) as peers:
        return [peer.to_the_end() for peer in peers]


@pytest.fixture(scope="module")
def fsdp(tmp_path_factory: pytest.TempPathFactory) -> list[Packets]:
    with ranks(tmp_path_factory.mktemp("fsdp"), FSDP) as peers:
        return [peer.to_the_end() for peer in peers]


def test_the_late_rank_waits_least_and_computes_most(ddp: list[Packets]) -> None:
    def of(name: str) -> list[float]:
        return [statistics.mean(v for _, v in series(rank, name)) for rank in ddp]

    step, wait, compute = (
        of(f"gpudiag_train_{n}_seconds") for n in ("step", "comm_wait", "compute")
    )
    assert abs(step[0] - step[1]) < 0.015
    assert wait[0] - wait[1] > 0.03
    assert compute[1] - compute[0] > 0.03


def test_the_late_rank_arrives_last(ddp: list[Packets]) -> None:
    arrived: list[dict[int, int]] = []
    for rank in ddp:
        groups = [p["entries"] for p in rank if p["kind"] == "arrivals" and p["group"] == "default"]
        arrived.append({seq: at for entries in groups for seq, at, _ in entries})
    late = [arrived[1][seq] - at for seq, at in arrived[0].items() if seq in arrived[1]]
    # Those of the set-up, and the later ones of a step, find both ranks there at once.
    apart = [by for by in late if abs(by) > 0.015e9]
    assert len(apart) >= 3
    assert 0.03e9 < statistics.median(apart) < 0.2e9
    # A busy machine may make the other rank late once.
    assert sum(by < 0 for by in apart) <= 1


def test_ranks_say_who_they_are(ddp: list[Packets]) -> None:
    hello = [[p for p in rank if p["kind"] == "hello"][-1] for rank in ddp]
    assert [(h["rank"], h["local_rank"], h["world_size"]) for h in hello] == [(0, 0, 2), (1, 1, 2)]
    assert hello[0]["layout"] == "dp=2,tp=1,pp=1,ep=1"
    assert hello[0]["config"]["optimizer"] == "SGD"
    assert hello[0]["features"]["ddp_logging"] == "found"


def test_sharded_bytes_are_told_locally_and_globally(fsdp: list[Packets]) -> None:
    found = {(d["kind"], d["scope"]): v for d, v in series(fsdp[0], "gpudiag_model_bytes")}
    whole = 2 * (32 * 32 + 32) * 4
    assert found["parameter", "global"] == whole
    assert found["parameter", "local"] == whole / 2
    assert found["gradient", "local"] == whole / 2
    assert found["optimizer", "global"] > 2 * whole


def test_sharded_training_tells_what_it_waits_for(fsdp: list[Packets]) -> None:
    hello = [p for p in fsdp[0] if p["kind"] == "hello"][-1]
    assert hello["config"]["sharding"] == "fsdp"
    assert hello["layout"] == "dp=1,tp=1,pp=1,ep=1,fsdp=2"
    assert series(fsdp[0], "gpudiag_train_step_seconds")
    assert hello["features"]["comm_wait"] == "work_wait"
    step, wait, compute = (
        statistics.mean(v for _, v in series(fsdp[0], f"gpudiag_train_{name}_seconds"))
        for name in ("step", "comm_wait", "compute")
    )
    assert 0 < wait < step
    assert 0 < compute < step


def test_a_rank_that_left_shows_while_the_other_is_blocked(tmp_path: Path) -> None:
    def enqueued(peer: Peer) -> float:
        return peer.value("gpudiag_train_collective_sequence", state="enqueued")

    with ranks(tmp_path, STUCK) as (waiting, away):
        while enqueued(waiting) < 4:
            pass
        while enqueued(away) < 3:
            pass
        assert (enqueued(waiting), enqueued(away)) == (4, 3)
