"""A real Alertmanager in a process of its own, with the example that ships."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from urllib.request import urlopen

from gpudiag.alerts.alertmanager import RECEIVERS, TEMPLATES
from tests.running import PATIENCE, free_port, wait_for


@contextmanager
def running(*command: str | Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program, its output in `log`, until the end of the block."""
    with log.open("wb") as out:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=PATIENCE):
            return True
    except OSError:
        return False


@contextmanager
def alertmanager(folder: Path, receivers: str) -> Iterator[int]:
    """The example that ships, its receivers at that address, without waiting; gives its port."""
    port = free_port()
    shipped = files("gpudiag.alerts.generated")
    config = shipped.joinpath("alertmanager.yaml").read_text().replace(RECEIVERS, receivers)
    quick = re.sub(r"(group_wait|group_interval): \w+", r"\1: 1s", config)
    (folder / "alertmanager.yml").write_text(quick)
    (folder / TEMPLATES).write_text(shipped.joinpath(TEMPLATES).read_text())
    command = [
        "prometheus-alertmanager",
        f"--config.file={folder}/alertmanager.yml",
        f"--storage.path={folder}/alertmanager",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with running(*command, log=folder / "alertmanager.log"):
        wait_for(lambda: answers(f"http://127.0.0.1:{port}/-/ready"), 30)
        yield port
