"""Starts the ranks of a job, and all of them anew when one fails: `launcher.py RANKS COMMAND...`.

What torchrun and a JobSet do, but with a port of its own for each start: gloo's ranks meet those
of the start before at times where the store is the same.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.running import free_port

STARTS = 6


def started(ranks: int, command: list[str], again: int) -> list[subprocess.Popen[bytes]]:
    common = {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "TORCHELASTIC_RESTART_COUNT": str(again),
    }
    return [
        subprocess.Popen(
            command, env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(ranks)
    ]


def failed(workers: list[subprocess.Popen[bytes]]) -> bool:
    return any(worker.returncode not in (None, 0) for worker in workers)


def main() -> None:
    ranks, command = int(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for again in range(STARTS):
        workers = started(ranks, command, again)
        try:
            while any(worker.poll() is None for worker in workers) and not failed(workers):
                time.sleep(0.1)
            if not failed(workers):
                sys.exit(0)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
    sys.exit(1)


if __name__ == "__main__":
    main()
