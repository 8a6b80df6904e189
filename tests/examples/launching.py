"""The examples as a user starts them: by `gpudiag run` or alone, with torchrun or without."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.running import SLOWER, wait_for

EXAMPLES = Path(__file__).parents[2] / "deploy" / "examples"
PATIENCE = 90.0


@dataclass
class Training:
    """A run of an example; what it prints goes to `log`."""

    process: subprocess.Popen[bytes]
    log: Path

    def output(self) -> str:
        return self.log.read_text()

    def losses(self) -> list[str]:
        """The lines that tell a loss, of all ranks in one order."""
        return sorted(re.findall(r"^rank .* loss .*$", self.output(), re.MULTILINE))

    def step(self) -> int:
        """The newest step that was printed."""
        return max(map(int, re.findall(r" step (\d+) loss", self.output())), default=0)

    def reach(self, step: int) -> None:
        wait_for(lambda: self.step() >= step or self._ended(), PATIENCE)
        assert self.step() >= step, self.output()

    def end(self) -> int:
        """Its exit code, once it has ended by itself."""
        return self.process.wait(PATIENCE * SLOWER)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)

    def _ended(self) -> bool:
        return self.process.poll() is not None


def train(
    log: Path,
    script: str,
    *flags: str,
    ranks: int = 0,
    run: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Training:
    """Start `script` on `ranks` ranks by torchrun (0: alone); `run` are flags of `gpudiag run`."""
    command = [sys.executable]
    if ranks:
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command += [str(EXAMPLES / f"{script}.py"), *flags]
    if run:
        command = [sys.executable, "-m", "gpudiag.agent", "run", *run, "--", *command]
    told = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=told, stdout=out, stderr=out)
    return Training(process, log)
