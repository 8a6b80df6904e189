from __future__ import annotations

import statistics
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from gpudiag.probes.torch.comm import ELSEWHERE
from gpudiag.probes.torch.features import Features
from tests.probes.torch.peer import Peer
from tests.probes.torch.ranks import ranks

DDP = """
from torch.nn.parallel import DistributedDataParallel
class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, g):
        if rank == 1: time.sleep(0.25)
        return g
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)
    def forward(self, x): return self.b(Slow.apply(self.a(x)))
gd.attach()
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(24):
    model(torch.randn(4, 32)).sum().backward()
    optimizer.step(); optimizer.zero_grad()
"""
FSDP = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(4)))
mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp_shard",))
for layer in model: fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
gd.attach(model)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(24):
    if rank == 1: time.sleep(0.25)
    model(torch.randn(4, 32)).sum().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step(); optimizer.zero_grad(set_to_none=False)
gd.detach()
"""
COMPILED = """
import torch.distributed._functional_collectives
gd.attach()
for _ in range(20):
    gd.step()
    sent = torch.ops._c10d_functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD.group_name)
    torch.ops._c10d_functional.wait_tensor(sent)
gd.detach()
"""
STUCK = """
gd.attach()
for _ in range(3):
    gd.step()
    dist.all_reduce(torch.ones(1))
if rank == 1: time.sleep(600)
dist.all_reduce(torch.ones(1))
"""

Packets = list[dict[str, Any]]


def series(packets: Packets, name: str) -> list[tuple[dict[str, str], float]]:
    return [(v[1], v[2]) for p in packets if "values" in p for v in p["values"] if v[0] == name]


recorded = pytest.mark.skipif(
    not Features(torch).flight_recorder, reason="gloo has no flight recorder here"
)


@pytest.fixture(scope="module")
def ddp(tmp_path_factory: pytest.TempPathFactory) -> list[Packets]:
    """What the ranks of a DDP run send whose rank 1 is 250 ms late inside backward."""
    with ranks(tmp_path_factory.mktemp("ddp"), DDP) as peers:
        return [peer.to_the_end() for peer in peers]


@pytest.fixture(scope="module")
def fsdp(tmp_path_factory: pytest.TempPathFactory) -> list[Packets]:
    """What the ranks of an FSDP2 run send whose rank 1 begins each step 250 ms late."""
    if not hasattr(import_module("torch.distributed.fsdp"), "fully_shard"):
        pytest.skip("no fully_shard here")
    with ranks(tmp_path_factory.mktemp("fsdp"), FSDP) as peers:
        return [peer.to_the_end() for peer in peers]


@pytest.mark.parametrize("run", ["ddp", pytest.param("fsdp", marks=recorded)])
def test_the_late_rank_waits_least_and_computes_most(
    run: str, request: pytest.FixtureRequest
) -> None:
    packets: list[Packets] = request.getfixturevalue(run)

    def of(name: str) -> list[float]:
        found = ([v for _, v in series(rank, f"gpudiag_train_{name}_seconds")] for rank in packets)
        return [statistics.median(values) for values in found]

    step, wait, compute = of("step"), of("comm_wait"), of("compute")
    # One waits for the other in each step, and a busy machine delays now this one and now that.
    assert abs(step[0] - step[1]) < 0.1
    assert wait[0] - wait[1] > 0.125
    assert compute[1] - compute[0] > 0.125


@pytest.mark.parametrize("run", ["ddp", pytest.param("fsdp", marks=recorded)])
def test_the_wait_of_a_group_within_the_node(run: str, request: pytest.FixtureRequest) -> None:
    packets: list[Packets] = request.getfixturevalue(run)
    found = series(packets[0], "gpudiag_train_group_wait_seconds")
    whole = series(packets[0], "gpudiag_train_comm_wait_seconds")
    assert {(d["group"], d["scope"]) for d, _ in found} == {("default", "intra_node")}
    assert found[-1][1] == pytest.approx(whole[-1][1], rel=0.1)


@recorded
def test_the_late_rank_arrives_last(ddp: list[Packets]) -> None:
    arrived: list[dict[int, int]] = []
    for rank in ddp:
        groups = [p["entries"] for p in rank if p["kind"] == "arrivals" and p["group"] == "default"]
        arrived.append({seq: at for entries in groups for seq, at, _ in entries})
    late = [arrived[1][seq] - at for seq, at in arrived[0].items() if seq in arrived[1]]
    # Those of the set-up, and the later ones of a step, find both ranks there at once.
    apart = [by for by in late if abs(by) > 0.1e9]
    assert len(apart) >= 3
    # A busy machine makes now this one later and now the other.
    assert 0.15e9 < statistics.median(apart) < 1e9
    assert sum(by > 0 for by in apart) >= 0.75 * len(apart)


def test_ranks_say_who_they_are(ddp: list[Packets]) -> None:
    hello = [[p for p in rank if p["kind"] == "hello"][-1] for rank in ddp]
    assert [(h["rank"], h["local_rank"], h["world_size"]) for h in hello] == [(0, 0, 2), (1, 1, 2)]
    assert hello[0]["layout"] == "dp=2,tp=1,pp=1,ep=1"
    assert hello[0]["config"]["optimizer"] == "SGD"
    assert hello[0]["features"]["ddp_logging"] == "found"


def test_sharded_bytes_are_told_locally_and_globally(fsdp: list[Packets]) -> None:
    found = {(d["kind"], d["scope"]): v for d, v in series(fsdp[0], "gpudiag_model_bytes")}
    whole = 4 * (32 * 32 + 32) * 4
    assert found["parameter", "global"] == whole
    assert found["parameter", "local"] == whole / 2
    assert found["gradient", "local"] == whole / 2
    assert found["optimizer", "global"] > 2 * whole


@recorded
def test_sharded_training_says_what_its_waits_rest_on(fsdp: list[Packets]) -> None:
    hello = [p for p in fsdp[0] if p["kind"] == "hello"][-1]
    assert hello["config"]["sharding"] == "fsdp"
    assert hello["layout"] == "dp=1,tp=1,pp=1,ep=1,fsdp=2"
    assert hello["features"]["comm_wait"] == "work_wait"


@recorded
def test_waits_that_python_does_not_see_are_absent_and_said_to_be(tmp_path: Path) -> None:
    with ranks(tmp_path, COMPILED) as peers:
        packets = peers[0].to_the_end()
    hello = [p for p in packets if p["kind"] == "hello"][-1]
    assert hello["features"]["comm_wait"] == ELSEWHERE
    assert series(packets, "gpudiag_train_step_seconds")
    for name in ("comm_wait", "group_wait", "compute"):
        assert not series(packets, f"gpudiag_train_{name}_seconds")


@recorded
def test_a_rank_that_left_shows_while_the_other_is_blocked(tmp_path: Path) -> None:
    def enqueued(peer: Peer) -> float:
        return peer.value("gpudiag_train_collective_sequence", state="enqueued")

    with ranks(tmp_path, STUCK) as (waiting, away):
        while enqueued(waiting) < 4:
            pass
        while enqueued(away) < 3:
            pass
        assert (enqueued(waiting), enqueued(away)) == (4, 3)
