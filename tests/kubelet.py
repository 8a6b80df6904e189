"""What a kubelet does for one container: starts it, asks its probes, restarts what fails thrice."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from urllib.error import URLError
from urllib.request import urlopen

from tests.running import PATIENCE

FAILURES = 3


class Kubelet:
    """Probes every `period` seconds; a server that was just started is asked at once, as one
    without an initial delay is. `ready` is what readiness came to, each time it changed.
    """

    def __init__(self, command: Sequence[str], probes: str, period: float = 0.5) -> None:
        self._command, self._probes, self._period = command, probes, period
        self._done = threading.Event()
        self.restarts = 0
        self.ready: list[bool] = []
        self.container = self._started()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command)

    def _run(self) -> None:
        failed = 0
        while not self._done.wait(self._period):
            failed = 0 if self._answers("livez") else failed + 1
            if failed == FAILURES or self.container.poll() is not None:
                self._end()
                self.container, failed = self._started(), 0
                self.restarts += 1
            ready = self._answers("readyz")
            if ready not in self.ready[-1:]:
                self.ready.append(ready)

    def _answers(self, probe: str) -> bool:
        try:
            with urlopen(f"{self._probes}/{probe}", timeout=PATIENCE) as answer:
                return bool(answer.status == 200)
        except (URLError, TimeoutError):
            return False

    def _end(self) -> None:
        self.container.terminate()
        try:
            self.container.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.container.kill()
            self.container.wait()
