"""A process of its own that asks the network mounts for their room: a dead server hangs only it.

Started by `RemoteSpace` as `python -m gpudiag.probes.statvfs_child MOUNTINFO [LAST...]`; writes
frames to its output until it is closed. Mounts named LAST are asked last: they hung before.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gpudiag.probes.disks import Space, choose, local_space, parse_mounts
from gpudiag.probes.frames import pack

ASKING, ANSWER, TICK = 1, 2, 3
EVERY_SECONDS = 30.0
TICK_SECONDS = 5.0


def one_round(
    mountinfo: str,
    last: Sequence[str],
    write: Callable[[bytes], object],
    ask: Callable[[str], Space | None] = local_space,
) -> None:
    """Ask each network mount once, saying which one before it is touched."""
    mounts = choose(parse_mounts(mountinfo), lambda _: True)
    points = [mount.point for mount in mounts if mount.remote]
    for point in sorted(points, key=lambda point: point in last):
        write(pack(ASKING, point.encode()))
        try:
            space = ask(point)
        except OSError:
            # A stale handle or a server that refuses: nothing is known, and the next is asked.
            continue
        if space is not None:
            write(pack(ANSWER, json.dumps([point, *space]).encode()))


def main(argv: Sequence[str]) -> None:
    """Rounds for ever; ends when the agent's end of the pipe is closed."""
    mountinfo, *last = argv

    def write(frame: bytes) -> None:
        os.write(sys.stdout.fileno(), frame)

    while True:
        one_round(Path(mountinfo).read_text("utf-8", "replace"), last, write)
        for _ in range(int(EVERY_SECONDS / TICK_SECONDS)):
            write(pack(TICK))
            time.sleep(TICK_SECONDS)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BrokenPipeError:
        sys.exit(0)
