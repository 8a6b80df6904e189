"""Makes the dumps of this folder: `python make.py missing|size|type`, three ranks over gloo."""

import datetime
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn

C10D: Any = torch._C._distributed_c10d


def go(rank: int, mode: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    timeout = datetime.timedelta(seconds=4)
    dist.init_process_group("gloo", rank=rank, world_size=3, timeout=timeout)
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
    try:
        if mode == "missing" and rank != 1:
            dist.all_reduce(torch.ones(1000))
        elif mode == "size":
            dist.all_reduce(torch.ones(6 if rank == 1 else 4), async_op=True)
        elif mode == "type" and rank == 1:
            dist.broadcast(torch.ones(4), 1, async_op=True)
        elif mode == "type":
            dist.all_reduce(torch.ones(4), async_op=True)
    except RuntimeError:
        pass
    time.sleep(1)
    Path(f"{mode}_{rank}").write_bytes(C10D._dump_fr_trace(True, False, False))
    Path(f"{mode}_{rank}.json").write_bytes(C10D._dump_fr_trace_json(True, False))
    time.sleep(5)
    os._exit(0)


if __name__ == "__main__":
    spawn(go, args=(sys.argv[1],), nprocs=3)
