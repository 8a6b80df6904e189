"""Training jobs that a live agent watches, started as a user starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.examples.launching import EXAMPLES, Training
from tests.running import RunningAgent

ONCE = Path(__file__).with_name("once.py")
LOOP = EXAMPLES / "hf_style_loop.py"
TORCHRUN = (
    *("torch.distributed.run", "--standalone", "--no-python"),
    *("--max-restarts", "3", "--nproc-per-node"),
)


def job(
    agent: RunningAgent,
    folder: Path,
    *,
    faults: tuple[str, ...] = (),
    flags: tuple[str, ...] = (),
    ranks: int = 1,
    script: Path = LOOP,
    launcher: tuple[str, ...] = ("tests.agent.live.launcher",),
    **environment: str,
) -> Training:
    """The loop of the examples as the job `llama`; `faults` are cured by a restart.

    Its launcher, a module and its flags before the number of ranks, starts all ranks again when
    one fails.
    """
    once = [sys.executable, str(ONCE), str(script), *faults, "--", *flags]
    command = [sys.executable, "-m", *launcher, str(ranks), *once]
    told = {
        **os.environ,
        "GPUDIAG_SOCKET": str(agent.socket),
        "GPUDIAG_JOB": "llama",
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    log = folder / "job.log"
    with log.open("ab") as out:
        process = subprocess.Popen(command, env=told, stdout=out, stderr=out)
    return Training(process, log)
