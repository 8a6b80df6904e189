"""From a hot GPU to the page in somebody's hand: agent, Prometheus, Alertmanager, receiver."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import yaml

from gpudiag.alerts.shape import RUNBOOKS
from tests.alertmanager import alertmanager, running
from tests.prometheus import RunningPrometheus
from tests.running import PATIENCE, free_port, wait_for
from tests.tools import needs

pytestmark = [
    needs("prometheus", "prometheus"),
    needs("prometheus-alertmanager", "prometheus-alertmanager"),
]

INCIDENT = Path(__file__).parent / "incidents/thermal-throttle/hot-until-the-fan-is-back.yaml"
SPEED = 30

Alert = dict[str, Any]


class Pager:
    """Whoever Alertmanager calls: keeps all that came."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        calls = self.calls

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                calls.append(json.loads(self.rfile.read(length)))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def came(self, name: str, status: str) -> Alert | None:
        """The first alert of that name that came in this state."""
        alerts = (alert for call in self.calls for alert in call["alerts"])
        wanted = (a for a in alerts if (a["labels"]["alertname"], a["status"]) == (name, status))
        return next(wanted, None)


def sped(rules: str, agent: str) -> str:
    """The rules that ship, their holds divided by the replay's speed, their links to this agent."""

    def divided(match: re.Match[str]) -> str:
        seconds = int(match[2]) * {"s": 1, "m": 60, "h": 3600}[match[3]]
        return f"{match[1]}: {max(1, round(seconds / SPEED))}s"

    held = re.sub(r"\b(for|keep_firing_for): (\d+)([smh])$", divided, rules, flags=re.M)
    # The agent's own absence is not played: a busy machine takes long to start it.
    held = re.sub(r"(GpudiagAgentMissing\n.*\n +for): \d+s", r"\1: 60s", held)
    return held.replace(RUNBOOKS, f"{agent}/runbooks")


@contextmanager
def prometheus(folder: Path, agent: str, manager: int) -> Iterator[RunningPrometheus]:
    shipped = files("gpudiag.alerts.generated").joinpath("gpudiag.rules.yaml").read_text()
    (folder / "rules.yaml").write_text(sped(shipped, agent))
    config = {
        "global": {"scrape_interval": "2s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yaml")],
        "scrape_configs": [
            {
                "job_name": "gpudiag",
                "honor_labels": True,
                "static_configs": [{"targets": [agent.removeprefix("http://")]}],
            }
        ],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{manager}"]}]}]
        },
    }
    server = RunningPrometheus(folder, yaml.safe_dump(config)).start()
    try:
        yield server
    finally:
        server.stop()


def test_it_is_paged_with_links_that_lead_somewhere_resolves_and_a_dead_agent_is_missed(tmp_path):
    pager, address = Pager(), f"127.0.0.1:{free_port()}"
    agent = f"http://{address}"
    replay = (sys.executable, "-m", "gpudiag.agent", "agent", "--replay", INCIDENT)
    with (
        alertmanager(tmp_path, pager.url) as manager,
        prometheus(tmp_path, agent, manager),
        running(
            *replay, "--speed", str(SPEED), "--listen", address, log=tmp_path / "agent.log"
        ) as process,
    ):
        hot = wait_for(lambda: pager.came("GpudiagThermalThrottle", "firing"), 60)
        known = {"severity": "warning", "subject": "uuid=GPU-3", "cause": "thermal-throttle"}
        assert hot["labels"] | known == hot["labels"]
        page, _, section = hot["annotations"]["runbook_url"].partition("#")
        with urlopen(page, timeout=PATIENCE) as answer:
            assert f'id="{section}"' in answer.read().decode()
        wait_for(lambda: pager.came("GpudiagThermalThrottle", "resolved"), 90)
        assert pager.came("GpudiagAgentMissing", "firing") is None
        process.kill()
        wait_for(lambda: pager.came("GpudiagAgentMissing", "firing"), 120)
