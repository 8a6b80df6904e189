"""A real agent in a process of its own, as the live tests and the benchmarks run it."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

# The agent as installed, but for the kernel log: tests write their own.
_START = """
import resource, sys
from pathlib import Path
from gpudiag.agent import cli, probing
probing.KMSG = Path(sys.argv.pop(1))
limit = int(sys.argv.pop(1))
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
cli.main()
"""


SLOWER = 4.0
"""How many times slower than a machine at rest one may be on which tests hold."""

PATIENCE = 60.0
"""Seconds for one answer, or for one process to end."""

# Below what the kernel hands out by itself, so that no connection takes one meanwhile.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    """A port that no other test gets while this process lives, and no connection by chance."""
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        # A name of the kernel's own, given back with the process: the port is told to nobody else.
        taken = socket.socket(socket.AF_UNIX)
        try:
            taken.bind(f"\0gpudiag-port-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            taken.close()
            continue
        taken.detach()
        return port
    raise AssertionError("no port is free")


def wait_for(true: Callable[[], Any], seconds: float = 15.0, every: float = 0.1) -> Any:
    """What `true` gives once it gives something; fails the test when that takes too long.

    `seconds` are those of a machine at rest.
    """
    end = time.monotonic() + seconds * SLOWER
    while True:
        last = time.monotonic() >= end
        found = true()
        if found:
            return found
        if last:
            raise AssertionError(f"not within {seconds * SLOWER} s")
        time.sleep(every)


@dataclass
class RunningAgent:
    """`folder` holds its state, configuration, kernel log and own log.

    `before` is Python that its process runs first.
    """

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    config: str = ""
    file_limit: int = 0
    before: str = ""
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> RunningAgent:
        self.kmsg.touch()
        (self.folder / "config.yaml").write_text(self.config)
        command = [
            sys.executable,
            "-c",
            self.before + _START,
            str(self.kmsg),
            str(self.file_limit),
            "agent",
        ]
        command += ["--listen", f"127.0.0.1:{self.port}", "--config", f"{self.folder}/config.yaml"]
        state = {
            "GPUDIAG_STATE_DIR": str(self.folder / "state"),
            "GPUDIAG_SOCKET": str(self.socket),
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env={**os.environ, **state, **self.environment}, stdout=log, stderr=log
            )
        wait_for(self.answers, seconds=20)
        return self

    @property
    def socket(self) -> Path:
        return self.folder / "agent.sock"

    @property
    def kmsg(self) -> Path:
        return self.folder / "kmsg"

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def answers(self) -> bool:
        assert self.process
        assert self.process.poll() is None, self.log()
        try:
            return bool(self.get("/healthz"))
        except OSError:
            return False

    def get(self, path: str) -> str:
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def firing(self, symptom: str = "") -> list[dict[str, Any]]:
        found = json.loads(self.get("/api/v1/findings"))["findings"]
        return [f for f in found if f["state"] == "firing" and symptom in ("", f["symptom"])]

    def metric(self, name: str, **match: str) -> list[float]:
        """Values of the series of that name whose labels match."""
        wanted = [f'{key}="{value}"' for key, value in match.items()]
        lines = [line for line in self.get("/metrics").splitlines() if not line.startswith("#")]
        chosen = [ln for ln in lines if ln.split("{")[0].split(" ")[0] == name]
        return [float(ln.rsplit(" ", 1)[1]) for ln in chosen if all(w in ln for w in wanted)]

    def kernel(self, text: str) -> None:
        """Append a kernel line, stamped with the time since boot."""
        usec = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1e6)
        sequence = self.kmsg.read_bytes().count(b"\n")
        with self.kmsg.open("a") as log:
            log.write(f"4,{sequence},{usec},-;{text}\n")

    def send(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)

    def stop(self, number: int = signal.SIGTERM) -> float:
        """End it; the seconds that took."""
        assert self.process
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(PATIENCE)
        return time.monotonic() - began
