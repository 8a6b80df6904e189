"""The programs measured side by side, each in processes of its own, and what these cost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

import psutil

from tests.running import RunningAgent, free_port, wait_for
from tests.simdriver.building import build
from tests.simdriver.state import SimDriver

# As Prometheus asks.
_HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
    "Accept-Encoding": "gzip",
}


@dataclass
class Program:
    """One program under test, its /metrics at `port`, and the times of its scrapes in seconds."""

    pid: int
    port: int
    latencies: list[float] = field(default_factory=list)
    failed: int = 0

    def scrape(self) -> None:
        began = time.perf_counter()
        try:
            request = Request(f"http://127.0.0.1:{self.port}/metrics", headers=_HEADERS)
            with urlopen(request, timeout=10) as answer:
                answer.read()
        except OSError:
            self.failed += 1
        self.latencies.append(time.perf_counter() - began)

    def text(self) -> str:
        with urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read(), "utf-8")

    def processes(self) -> list[psutil.Process]:
        root = psutil.Process(self.pid)
        return [root, *root.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """All processes of its tree together, those that have ended too."""
        return sum(sum(process.cpu_times()[:4]) for process in self.processes())

    def pss_mib(self) -> list[float]:
        """By process: its own memory and its share of what it shares with any other."""
        return [process.memory_full_info().pss / 2**20 for process in self.processes()]

    def alone_mib(self) -> float:
        """PSS if no other process had the same libraries in use, as on a bare node."""
        private, files = 0.0, defaultdict[str, list[float]](list)
        for process in self.processes():
            for part in process.memory_maps(grouped=True):
                private += part.anonymous
                files[part.path].append(part.rss - part.anonymous)
        return (private + sum(map(max, files.values()))) / 2**20


@contextmanager
def driver(folder: Path) -> Iterator[SimDriver]:
    """Eight simulated H100 whose counters grow."""
    folder.mkdir()
    yield SimDriver(folder / "state", build()).live()


@contextmanager
def agent(folder: Path, environment: Mapping[str, str]) -> Iterator[RunningAgent]:
    folder.mkdir()
    running = RunningAgent(folder, environment).start()
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def nvitop(environment: Mapping[str, str]) -> Iterator[Program]:
    port = free_port()
    command = [str(Path(sys.executable).with_name("nvitop-exporter")), "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--interval", "1"],
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    program = Program(process.pid, port)
    try:
        wait_for(lambda: _answers(program), seconds=30)
        yield program
    finally:
        process.kill()
        process.wait(10)


def _answers(program: Program) -> bool:
    try:
        return "gpu" in program.text()
    except OSError:
        return False
