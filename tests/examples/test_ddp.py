"""DDP over gloo by `gpudiag run -- torchrun`, a real agent in a second process."""

import itertools
import time

import pytest

from tests.running import wait_for

RANKS = ("0", "1")
ENDLESS = ("--steps", "1000000")
SERIES = (
    "train_steps_total", "train_step_seconds", "train_step_duration_seconds_count",
    "train_data_wait_seconds", "train_comm_wait_seconds", "train_compute_seconds",
    "train_loader_queue_depth", "train_loader_queue_capacity", "train_gc_pause_seconds",
    "train_loss", "train_grad_norm", "train_nonfinite_total", "train_samples_total",
    "train_tokens_total", "train_batch_size", "train_sequence_length", "train_micro_batches",
    "train_collective_sequence", "train_arrival_lag_seconds", "train_last_arrivals_ratio",
    "train_info", "train_config_info",
)  # fmt: skip


def missing(agent, job):
    """Series that are not there for every rank."""
    each = itertools.product(SERIES, RANKS)
    return [(s, r) for s, r in each if not agent.metric(f"gpudiag_{s}", job=job, rank=r)]


def blamed(agent, job):
    """Ranks of `job` that the straggler finding names."""
    found = [f["subject"] for f in agent.firing("straggler")]
    return {subject["rank"] for subject in found if subject["job"] == job}


def slow(where, rank, milliseconds="50"):
    # Without workers to fetch ahead, a loader is late by its delay however slow the machine.
    workers = "0" if where == "loader" else "2"
    flags = ("--slow-rank", rank, "--slow-where", where, "--slow-ms", milliseconds)
    return (*flags, "--workers", workers)


@pytest.fixture
def launch(agent, start):
    def one(job, *flags, ranks, script="ddp_transformer"):
        run = ("--socket", str(agent.socket), "--job", job)
        return start(script, *ENDLESS, *flags, ranks=ranks, run=run)

    return one


def test_two_ranks_are_seen_and_the_one_slow_in_backward_is_named(agent, launch):
    # So slow that no other rank is, however busy the machine.
    launch("slow", *slow("backward", "1", "250"), ranks=2)
    wait_for(lambda: missing(agent, "slow") == [], seconds=60)
    [finding] = wait_for(lambda: agent.firing("straggler"), seconds=60)
    assert (finding["subject"], finding["cause"]) == ({"job": "slow", "rank": "1"}, "slow-worker")
    assert max(agent.metric("gpudiag_train_step_seconds", rank="0", job="slow")) >= 0.05
    assert agent.metric("gpudiag_train_loader_queue_capacity", rank="0") == [4.0]
    assert agent.metric("gpudiag_train_sequence_length", rank="1") == [32.0]


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("where", ["forward", "backward", "loader"])
@pytest.mark.parametrize("script", ["ddp_transformer", "fsdp2"])
def test_the_slow_rank_is_named(agent, launch, script, where, ranks):
    launch("slow", *slow(where, "1"), ranks=ranks, script=script)
    assert wait_for(lambda: blamed(agent, "slow"), seconds=120) == {"1"}
    [finding] = agent.firing("straggler")
    assert (finding["cause"] == "data-starvation") == (where == "loader")


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("script", ["ddp_transformer", "fsdp2"])
def test_none_is_named_where_all_are_alike(agent, launch, script, ranks):
    launch("alike", ranks=ranks, script=script).reach(20)
    end = time.monotonic() + 75.0
    while time.monotonic() < end:
        assert agent.firing("straggler") == []
        time.sleep(2.0)
    assert agent.metric("gpudiag_train_last_arrivals_ratio", job="alike"), "nothing could tell"
