"""What the agent shows and writes while it runs over the simulated driver."""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.running import wait_for
from tests.simdriver.state import uuid_of
from tests.tools import needs

GOLDEN = Path(__file__).parent / "golden" / "gpu_metrics.txt"
FALLEN = "NVRM: Xid (PCI:0000:1b:00): 79, pid=4242, name=python, GPU has fallen off the bus."


def gpu_lines(agent):
    """What is told of the node and its first GPU; the driver stands still: values are exact."""
    lines = agent.get("/metrics").splitlines()
    told = (line for line in lines if line.startswith(("gpudiag_gpu", "gpudiag_driver")))
    return sorted(line for line in told if 'gpu="0"' in line or "gpu=" not in line)


def test_the_gpu_series_are_the_golden_ones(start):
    agent = start()
    wait_for(
        lambda: (
            agent.metric("gpudiag_gpu_ecc_errors_total")
            and agent.metric("gpudiag_gpu_sm_active_ratio")
        )
    )
    with suppress(AssertionError):
        wait_for(lambda: gpu_lines(agent) == GOLDEN.read_text().splitlines())
    lines = gpu_lines(agent)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("\n".join(lines) + "\n")
    assert lines == GOLDEN.read_text().splitlines(), "UPDATE_GOLDEN=1 writes it anew"


@needs("promtool", "prometheus")
def test_promtool_accepts_the_page_of_a_running_agent(start):
    agent = start()
    wait_for(lambda: agent.metric("gpudiag_gpu_info"))
    check = ["promtool", "check", "metrics"]
    done = subprocess.run(
        check, input=agent.get("/metrics"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_storm_of_scrapes_does_not_disturb_sampling(start, sim):
    agent = start()
    wait_for(lambda: agent.metric("gpudiag_gpu_info"))

    def reads():
        return sim.calls()["nvmlDeviceGetUtilizationRates"]

    began, before = time.monotonic(), reads()
    with ThreadPoolExecutor(200) as pool:
        storm = pool.map(lambda _: agent.get("/metrics"), range(1000))
        # Two more rounds of the eight GPUs, while the storm goes on or right after it.
        wait_for(lambda: reads() >= before + 16)
        pages = list(storm)
    assert all("gpudiag_gpu_info" in page for page in pages)
    assert reads() - before <= 8 * (time.monotonic() - began + 2.0)


def test_nobody_can_change_anything(start):
    agent = start()
    agent.kernel(FALLEN)
    before = wait_for(lambda: agent.firing("gpu-xid"))
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in ("/", "/metrics", "/api/v1/findings", "/api/v1/actions"):
            request = ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "-X", method]
            done = subprocess.run(
                [*request, f"http://127.0.0.1:{agent.port}{path}"],
                capture_output=True,
                text=True,
                check=True,
            )
            assert done.stdout == "405", (method, path)
    assert identity(agent.firing("gpu-xid")) == identity(before)


def identity(findings):
    return [(f["id"], f["raised_at"], f["acknowledged"]) for f in findings]


def test_a_critical_finding_leaves_a_recording_that_replays_to_it(start):
    agent = start(config="recording: {after: 1s}")
    wait_for(lambda: agent.metric("gpudiag_gpu_info"))
    agent.kernel(FALLEN)
    folder = agent.folder / "state" / "recordings"
    recording = wait_for(lambda: list(folder.glob("*gpu-xid*.tar.gz")), seconds=40)[0]
    replay = [sys.executable, "-m", "gpudiag.agent", "replay", str(recording), "--json"]
    done = subprocess.run(replay, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(f["cause"], f["subject"]["uuid"]) for f in found if f["symptom"] == "gpu-xid"][:1] == [
        ("xid-79", uuid_of(0))
    ]


@pytest.fixture
def collector():
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(
                (
                    self.path,
                    self.rfile.read(int(self.headers["Content-Length"])),
                    self.headers["x-team"],
                )
            )
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/metrics", received
    server.shutdown()
    server.server_close()


def test_otlp_goes_where_the_configuration_says(start, collector, tmp_path):
    url, received = collector
    (tmp_path / "team").write_text("infra\n")
    headers = f"{{x-team: '@{tmp_path}/team'}}"
    start(config=f"exporters: {{otlp: {{endpoint: '{url}', interval: 1s, headers: {headers}}}}}")
    path, body, team = wait_for(lambda: [one for one in received if uuid_of(3).encode() in one[1]])[
        0
    ]
    assert (path, team) == ("/v1/metrics", "infra")
    assert b"hw.gpu.memory.usage" in body
