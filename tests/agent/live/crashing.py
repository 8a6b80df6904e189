"""A job that ends with an error after two seconds of steps: `crashing.py FOLDER SOCKET [--away]`.

Each start leaves a line in FOLDER/starts. With `--away` it goes on in a process of its own, as what
a scheduler starts does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

STEPS, STEP_SECONDS = 20, 0.1


def start(folder: Path, socket: str) -> subprocess.Popen[bytes]:
    """One more process of the job `llama`."""
    environment = {**os.environ, "GPUDIAG_SOCKET": socket, "GPUDIAG_JOB": "llama"}
    command = [sys.executable, __file__, str(folder), socket]
    with (folder / "job.log").open("ab") as log:
        return subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def main(folder: Path) -> None:
    with (folder / "starts").open("a") as starts:
        starts.write("started\n")
    import torch

    import gpudiag.probes.torch as gd

    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gd.attach(model, optimizer)
    for _ in range(STEPS):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(STEP_SECONDS)
    raise RuntimeError("planted: it fails again at once")


if __name__ == "__main__":
    if sys.argv[3:] == ["--away"]:
        start(Path(sys.argv[1]), sys.argv[2])
    else:
        main(Path(sys.argv[1]))
