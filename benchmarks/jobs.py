"""What eight ranks of a job and two servers add to a node: healthy, with noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpudiag.probes import Labels, labels

Column = tuple[tuple[str, Labels], np.ndarray]

RANKS = 8
SERVERS = ("chat", "embed")
BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
GAUGES = {
    "gpudiag_train_step_seconds": 0.5,
    "gpudiag_train_compute_seconds": 0.42,
    "gpudiag_train_comm_wait_seconds": 0.04,
    "gpudiag_train_data_wait_seconds": 0.002,
    "gpudiag_train_arrival_lag_seconds": 0.001,
    "gpudiag_train_last_arrivals_ratio": 0.12,
    "gpudiag_train_loader_queue_depth": 8.0,
    "gpudiag_train_loader_queue_capacity": 8.0,
    "gpudiag_train_loss": 2.1,
    "gpudiag_train_grad_norm": 1.0,
    "gpudiag_torch_allocated_bytes": 4e10,
    "gpudiag_torch_reserved_bytes": 5e10,
    "gpudiag_torch_active_bytes": 4.2e10,
    "gpudiag_torch_inactive_split_bytes": 2e9,
}
COUNTERS = {
    "gpudiag_train_steps_total": 20.0,
    "gpudiag_train_samples_total": 640.0,
    "gpudiag_train_tokens_total": 1.3e6,
    "gpudiag_torch_alloc_retries_total": 0.0,
    "gpudiag_torch_ooms_total": 0.0,
}
SERVED = {
    "gpudiag_serving_engine_steps_total": 400.0,
    "gpudiag_serving_prompt_tokens_total": 4e4,
    "gpudiag_serving_generation_tokens_total": 8e3,
    "gpudiag_serving_prefix_cache_queries_total": 4e4,
    "gpudiag_serving_prefix_cache_hits_total": 1e4,
    "gpudiag_serving_preemptions_total": 0.0,
}
HISTOGRAMS = ("ttft", "inter_token", "request", "queue")


def columns(count: int) -> Iterator[Column]:
    """Name, labels and `count` values, ten seconds apart."""
    rng = np.random.default_rng(8)
    for rank in range(RANKS):
        yield from _rank(rank, count, rng)
    for server in SERVERS:
        yield from _server(server, count, rng)


def _rank(rank: int, count: int, rng: np.random.Generator) -> Iterator[Column]:
    of = labels(job="llama", rank=str(rank))
    info = labels(
        job="llama", rank=str(rank), local_rank=str(rank), world_size="8",
        uuid=f"GPU-{rank}", pid=str(4000 + rank), layout="dp=8,tp=1,pp=1,ep=1",
    )  # fmt: skip
    yield ("gpudiag_train_info", info), np.ones(count)
    for name, level in GAUGES.items():
        yield (name, of), level * (1 + 0.02 * rng.standard_normal(count))
    for name, rate in COUNTERS.items():
        yield (name, of), _rising(rate, count)


def _server(server: str, count: int, rng: np.random.Generator) -> Iterator[Column]:
    of = labels(server=server, engine="0", model="m")
    for name, level in (("up", 1.0), ("ready", 1.0)):
        yield (f"gpudiag_serving_{name}", labels(server=server)), np.full(count, level)
    for name, most in (("requests_running", 12), ("requests_waiting", 2)):
        values = rng.integers(0, most, count).astype(float)
        yield (f"gpudiag_serving_{name}", of), values
    yield ("gpudiag_serving_kv_cache_usage_ratio", of), rng.uniform(0.3, 0.5, count)
    for name, rate in SERVED.items():
        yield (name, of), _rising(rate, count)
    for outcome, rate in (("ok", 30.0), ("error", 0.0), ("aborted", 0.1)):
        key = labels(server=server, engine="0", model="m", outcome=outcome)
        yield ("gpudiag_serving_requests_total", key), _rising(rate, count)
    for name in HISTOGRAMS:
        yield from _histogram(f"gpudiag_serving_{name}_seconds", of, count)


def _histogram(name: str, of: Labels, count: int) -> Iterator[Column]:
    for number, bound in enumerate((*BOUNDS, float("inf")), 1):
        le = "+Inf" if bound == float("inf") else f"{bound:g}"
        key = tuple(sorted((*of, ("le", le))))
        yield (f"{name}_bucket", key), _rising(30.0 * number / (len(BOUNDS) + 1), count)
    yield (f"{name}_sum", of), _rising(15.0, count)
    yield (f"{name}_count", of), _rising(30.0, count)


def _rising(rate: float, count: int) -> np.ndarray:
    return np.floor(rate * np.arange(count))
