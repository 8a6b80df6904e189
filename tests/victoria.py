"""A real VictoriaMetrics in a process of its own, over what a test imported."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

from tests.running import PATIENCE, free_port, wait_for


@dataclass
class RunningVictoria:
    """`folder` holds its data and log."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> RunningVictoria:
        command = [
            "victoria-metrics",
            f"-storageDataPath={self.folder}/data",
            f"-httpListenAddr=127.0.0.1:{self.port}",
            "-retentionPeriod=100y",
            "-memory.allowedBytes=128MiB",
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(self.ready, seconds=30)
        return self

    def ready(self) -> bool:
        assert self.process
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            with urlopen(f"{self.url}/health", timeout=PATIENCE):
                return True
        except OSError:
            return False

    def take(self, openmetrics: Path) -> RunningVictoria:
        """Import the samples of a file, whose times become milliseconds, and make them seen."""
        lines = []
        for line in openmetrics.read_text().splitlines():
            if line and not line.startswith("#"):
                head, value, time = line.rsplit(" ", 2)
                lines.append(f"{head} {value} {round(float(time) * 1000)}")
        self._post("api/v1/import/prometheus", "\n".join(lines).encode())
        self._post("internal/force_flush", b"")
        return self

    def _post(self, path: str, body: bytes) -> None:
        request = Request(f"{self.url}/{path}", data=body, method="POST")
        with urlopen(request, timeout=PATIENCE) as answer:
            assert answer.status in (200, 204)

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)
