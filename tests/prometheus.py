"""A real Prometheus in a process of its own, over what a test backfilled or lets it scrape."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.running import PATIENCE, free_port, wait_for

Series = list[dict[str, Any]]


@dataclass
class RunningPrometheus:
    """`folder` holds its data, configuration and log.

    `lookback` is for how long a series that ended still counts, where nothing marks its end.
    """

    folder: Path
    config: str = ""
    lookback: str = "5m"
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def backfill(self, openmetrics: Path) -> RunningPrometheus:
        """Take the samples of a file in, before the start."""
        make = ["promtool", "tsdb", "create-blocks-from", "openmetrics"]
        done = subprocess.run(
            [*make, openmetrics, self.data], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return self

    def record(self, rules: Path, start: float, end: float) -> RunningPrometheus:
        """Take in what recording rules make of what is there; it runs, and runs again after."""
        make = ["promtool", "tsdb", "create-blocks-from", "rules", "--eval-interval=60s"]
        make += [f"--start={int(start)}", f"--end={int(end)}", f"--output-dir={self.data}"]
        # A group's moments of evaluation depend on its file's name: here not on a temporary folder.
        make += [f"--url=http://127.0.0.1:{self.port}", rules.name]
        done = subprocess.run(make, capture_output=True, text=True, check=False, cwd=rules.parent)
        assert done.returncode == 0, done.stderr
        self.stop()
        return self.start()

    def start(self) -> RunningPrometheus:
        (self.folder / "prometheus.yml").write_text(self.config)
        command = [
            "prometheus",
            f"--config.file={self.folder}/prometheus.yml",
            f"--storage.tsdb.path={self.data}",
            f"--query.lookback-delta={self.lookback}",
            f"--web.listen-address=127.0.0.1:{self.port}",
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(self.ready, seconds=30)
        return self

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def ready(self) -> bool:
        assert self.process
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=PATIENCE):
                return True
        except OSError:
            return False

    def over(self, expr: str, start: float, end: float, step: float) -> Series:
        """The series of an expression between two times; fails the test with what it refuses."""
        return self._ask("query_range", query=expr, start=start, end=end, step=step)

    def at(self, expr: str, time: float) -> Series:
        return self._ask("query", query=expr, time=time)

    def _ask(self, what: str, **parameters: str | float) -> Series:
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urlencode(parameters)}"
        try:
            with urlopen(url, timeout=PATIENCE) as answer:
                found: Series = json.load(answer)["data"]["result"]
        except HTTPError as error:
            raise AssertionError(f"{parameters['query']}: {error.read().decode()}") from error
        return found

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(PATIENCE)
