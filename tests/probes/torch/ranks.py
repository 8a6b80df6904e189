"""Training processes over gloo for tests, one a rank, each with an agent's end of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.probes.torch.peer import Peer
from tests.running import free_port

ROOT = Path(__file__).parents[3]
SCRIPT = """
import sys, time
import torch, torch.distributed as dist
import gpudiag.probes.torch as gd
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
"""


@contextmanager
def ranks(folder: Path, body: str, number: int = 2) -> Iterator[list[Peer]]:
    """The peers of `number` ranks that run `body`; all are gone at the end."""
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    shared["WORLD_SIZE"] = shared["LOCAL_WORLD_SIZE"] = str(number)
    # On by itself since torch 2.13.
    shared["TORCH_FR_BUFFER_SIZE"] = "2000"
    processes = []
    with ExitStack() as stack:
        peers = [stack.enter_context(Peer(folder / f"{n}.sock")) for n in range(number)]
        try:
            for rank, peer in enumerate(peers):
                own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "GPUDIAG_SOCKET": str(peer.path)}
                command = [sys.executable, "-c", SCRIPT + body]
                processes.append(subprocess.Popen(command, env={**shared, **own}, cwd=ROOT))
            yield peers
        finally:
            for process in processes:
                process.kill()
                process.wait()
