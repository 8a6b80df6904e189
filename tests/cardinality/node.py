"""A node as full as the documented bound assumes: 16 GPUs, 16 ranks with loaders, 4 servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gpudiag.probes import catalog
from gpudiag.probes.torch.kernels import KINDS
from gpudiag.probes.torch.steps import BOUNDS
from tests.modelserver import model_server
from tests.running import RunningAgent, wait_for
from tests.simdriver.state import SimDriver, uuid_of

GPUS, RANKS, SERVERS, LOADERS = 16, 16, 4, 4

CONFIG = """
probes:
  serving:
    servers: [{servers}]
  canary:
    servers: [{canaries}]
actions: {{token: t}}
"""

PAGE = Path(__file__).parents[1] / "probes/serving/pages/vllm-0.33.txt"
SECONDS = "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680"
TOKENS = "1 2 5 10 20 50 100 200 500 1000 2000 5000 10000 20000 50000 100000"
FIRST = (
    "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560"
)
NEXT = "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80"
HISTOGRAMS = {
    "time_to_first_token_seconds": FIRST,
    "inter_token_latency_seconds": NEXT,
    "e2e_request_latency_seconds": SECONDS,
    "request_queue_time_seconds": SECONDS,
    "request_prompt_tokens": TOKENS,
    "request_generation_tokens": TOKENS,
}
"""The bounds of vLLM's own histograms at a context of 131,072 tokens (its v1 metrics loggers)."""

KERNELS = (*(kind for kind, _ in KINDS), "other")
GROUPS = ("default_pg", "dp", "tp", "pp", "ep")
LABELLED: dict[str, list[dict[str, str]]] = {
    "gpudiag_train_kernel_seconds": [{"kind": kind} for kind in KERNELS],
    "gpudiag_train_group_wait_seconds": [{"group": g, "scope": "across"} for g in GROUPS],
    "gpudiag_train_collective_sequence": [
        {"group": g, "state": s} for g in GROUPS for s in ("enqueued", "completed")
    ],
    "gpudiag_train_phase_seconds": [{"phase": p} for p in ("rollout", "reward", "update", "eval")],
    "gpudiag_model_bytes": [
        {"kind": k, "dtype": d, "scope": s}
        for k in ("parameter", "gradient", "optimizer")
        for d in ("bfloat16", "float32")
        for s in ("rank", "global")
    ],
    "gpudiag_leak_site_bytes": [{"site": f"train.py:{n}"} for n in range(3)],
    "gpudiag_leak_site_bytes_per_step": [{"site": f"train.py:{n}"} for n in range(3)],
    "gpudiag_torch_stream_free_bytes": [{"stream": str(n)} for n in range(4)],
    "gpudiag_torch_live_blocks": [{"age": a} for a in ("step", "minute", "old")],
}

_RANK = """
import json, os, socket, subprocess, sys, time
path, hello, values, loaders = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), 4
workers = [subprocess.Popen(["sleep", "900"]) for _ in range(int(sys.argv[4]))]
agent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
agent.connect(path)
agent.send(json.dumps({**hello, "pid": os.getpid()}).encode())
try:
    while True:
        told = {"kind": "metrics", "time": time.time(), "values": values}
        agent.send(json.dumps(told).encode())
        time.sleep(1)
finally:
    for worker in workers:
        worker.kill()
"""


def torch_values() -> list[list[Any]]:
    """A reading of every series that a rank may report."""
    values: list[list[Any]] = []
    for name, metric in catalog.metrics().items():
        if metric.source != "torch" or metric.kind == "info":
            continue
        if metric.kind == "histogram":
            bounds = [*(f"{b:g}" for b in BOUNDS), "+Inf"]
            values += [[f"{name}_bucket", {"le": b}, n] for n, b in enumerate(bounds)]
            values += [[f"{name}_sum", {}, 1.0], [f"{name}_count", {}, float(len(BOUNDS))]]
        else:
            values += [[name, of, 1.0] for of in LABELLED.get(name, [{}])]
    return values


def page() -> str:
    """A page of vLLM with its whole histograms."""
    of = 'engine="0",model_name="meta-llama/Llama-3.1-8B"'
    lines = [line for line in PAGE.read_text().splitlines() if not _of_histogram(line)]
    for name, bounds in HISTOGRAMS.items():
        lines.append(f"# TYPE vllm:{name} histogram")
        for number, bound in enumerate([*bounds.split(), "+Inf"]):
            lines.append(f'vllm:{name}_bucket{{le="{bound}",{of}}} {number}')
        lines += [f"vllm:{name}_sum{{{of}}} 1", f"vllm:{name}_count{{{of}}} 99"]
    return "\n".join(lines) + "\n"


def _of_histogram(line: str) -> bool:
    return any(f"vllm:{name}_" in line for name in HISTOGRAMS)


@contextmanager
def full(folder: Path, sim: SimDriver) -> Iterator[RunningAgent]:
    """The agent of such a node, with everything on it running."""
    sim.count(GPUS).live()
    with ExitStack() as ending:
        names = [f"chat-{n}" for n in range(SERVERS)]
        urls = {
            name: ending.enter_context(model_server(metrics=page(), health="")).url
            for name in names
        }
        servers = ", ".join(f'{{name: {n}, url: "{u}"}}' for n, u in urls.items())
        canaries = ", ".join(
            f'{{name: {n}, url: "{u}", api: openai-chat}}' for n, u in urls.items()
        )
        config = CONFIG.format(servers=servers, canaries=canaries)
        agent = RunningAgent(folder, sim.environment, config=config).start()
        ending.callback(agent.stop)
        for rank in range(RANKS):
            process = _rank(agent, rank)
            ending.callback(process.wait)
            ending.callback(process.terminate)
            sim.process(rank, process.pid, 60 << 30)
        for code in (13, 31, 43, 63, 94):
            sim.xid(3, code)
        yield agent


def _rank(agent: RunningAgent, rank: int) -> subprocess.Popen[bytes]:
    who = {"job": "llama", "rank": rank, "local_rank": rank, "world_size": RANKS}
    what = {"uuid": uuid_of(rank), "framework": "megatron", "layout": "tp8"}
    hello = {"kind": "hello", "version": 1, **who, **what}
    words = [str(agent.socket), json.dumps(hello), json.dumps(torch_values()), str(LOADERS)]
    return subprocess.Popen([sys.executable, "-c", _RANK, *words], env=dict(os.environ))


def counted(agent: RunningAgent) -> dict[str, int]:
    """The series of each metric as `/metrics` shows them, a histogram's parts with it."""
    found: dict[str, int] = {}
    for line in agent.get("/metrics").splitlines():
        if line and not line.startswith("#"):
            name = line.partition("{")[0].partition(" ")[0]
            base = name if name in catalog.metrics() else name.rpartition("_")[0]
            found[base] = found.get(base, 0) + 1
    return found


def settled(agent: RunningAgent, seconds: float = 240.0) -> dict[str, int]:
    """What is counted once all is there, and has not grown for ten seconds."""
    whole = {"gpudiag_gpu_info": GPUS, "gpudiag_train_info": RANKS, "gpudiag_serving_up": SERVERS}
    wait_for(lambda: whole.items() <= counted(agent).items(), seconds=60, every=1.0)
    end, most, since = time.monotonic() + seconds, counted(agent), time.monotonic()
    while time.monotonic() < end and time.monotonic() - since < 10:
        time.sleep(1)
        now = counted(agent)
        if sum(now.values()) > sum(most.values()):
            most, since = now, time.monotonic()
    return most
