"""The child that calls the driver: `python -m gpudiag.probes.nvml CADENCE EXPECTED ROOT`.

It ends, and says why first, wherever only a fresh process can try again: NVML caches the library's
functions over a shutdown, so a driver that was replaced on disk needs one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pynvml

from gpudiag.probes.nvml.client import DriverGone
from gpudiag.probes.nvml.session import Session, next_look, versions
from gpudiag.probes.nvml.wire import Writer


def main(cadence: float, expected: int, root: Path) -> None:
    """Read until the driver or the agent is gone."""
    # What a library prints must not land between our frames.
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        _read(Writer(pipe), cadence, expected, root)
    except BrokenPipeError:
        # The agent is gone; a normal exit would try to flush to it.
        os._exit(0)


def _read(writer: Writer, cadence: float, expected: int, root: Path) -> None:
    try:
        _sessions(writer, cadence, expected, root)
    except DriverGone as gone:
        told = {"up": False, "code": gone.code, "listed": 0, "gpus": []}
        writer.status({**told, "versions": versions(pynvml, root)})


def _sessions(writer: Writer, cadence: float, expected: int, root: Path) -> None:
    look_after = 0
    while True:
        writer.begin()
        look_after = next_look(look_after)
        session = Session(pynvml, root, expected, look_after)
        expected = session.expected
        session.run(writer, cadence)
        session.close()


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
