"""The probes of the vLLM pod, as its kubelet runs them, beside a real agent and a fake server."""

import http.server
import re
import subprocess
import threading
import time
from urllib.request import urlopen

import pytest

from gpudiag.agent.actions.levers.workload import Workload
from tests.deploy.kustomized import DEPLOY, OVERLAYS, kustomized, overlay
from tests.deploy.pods import agent, workload
from tests.running import PATIENCE, RunningAgent, free_port
from tests.tools import needs

AGENT, SERVER = ":9440/", ":8000"

pytestmark = needs("curl", "curl")


class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    """The port of a server that is well."""
    serving = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Health)
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield serving.server_port
    serving.shutdown()
    serving.server_close()


@pytest.fixture
def beside(tmp_path):
    """Starts the agent with the overlay's configuration beside the server of that port."""
    started = []

    def start(server, decided=lambda flags: None):
        (tmp_path / "state").mkdir()
        decided(Workload(tmp_path / "state/workload.json", time.time, "chat"))
        (given,) = [o for o in overlay("sidecar-vllm") if o["kind"] == "ConfigMap"]
        text = given["data"]["gpudiag.yaml"].replace(SERVER, f":{server}")
        started.append(RunningAgent(tmp_path, config=text).start())
        return started[0].port

    yield start
    for running in started:
        running.stop()


def says_yes(probe, server, port):
    command = workload("sidecar-vllm")[probe]["exec"]["command"]
    told = [part.replace(SERVER, f":{server}").replace(AGENT, f":{port}/") for part in command]
    assert told != command, "the probe asks other ports"
    # What a slow answer comes to is not what is asked here.
    told = [re.sub(r"-m \d+", "-m 60", part) for part in told]
    return subprocess.run(told, check=False, timeout=240).returncode == 0


def test_both_say_yes_while_nothing_was_decided(server, beside):
    port = beside(server)
    assert says_yes("readinessProbe", server, port)
    assert says_yes("livenessProbe", server, port)


def test_readiness_says_no_where_load_is_shed_and_the_server_lives_on(server, beside):
    port = beside(server, lambda flags: flags.shed("plan", "kv-cache-exhausted"))
    assert not says_yes("readinessProbe", server, port)
    assert says_yes("livenessProbe", server, port)


def test_liveness_says_no_where_a_restart_was_decided(beside):
    port = beside(free_port(), lambda flags: flags.restart())
    assert not says_yes("livenessProbe", free_port(), port)


def test_an_agent_that_is_away_takes_no_server_out(server):
    assert says_yes("readinessProbe", server, free_port())
    assert says_yes("livenessProbe", server, free_port())


def test_readiness_says_no_where_the_server_is_away(beside):
    nobody = free_port()
    assert not says_yes("readinessProbe", nobody, beside(nobody))


def asked_of_the_agent():
    """Paths that the kubelet and Prometheus ask each agent for."""
    found = set()
    for name in OVERLAYS:
        for one in (agent(name).get(probe, {}) for probe in ("readinessProbe", "livenessProbe")):
            found |= {one["httpGet"]["path"]} if one else set()
    (monitor,) = kustomized(DEPLOY / "monitoring")
    return found | {one["path"] for one in monitor["spec"]["podMetricsEndpoints"]}


def test_the_agent_answers_what_kubelet_and_prometheus_ask_for(beside):
    port = beside(free_port())
    assert len(asked_of_the_agent()) == 3
    for path in asked_of_the_agent():
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            assert answer.status == 200, path


@pytest.mark.parametrize("probe", ["readinessProbe", "livenessProbe"])
def test_the_kubelet_waits_longer_than_the_probe_itself(probe):
    """Ended by the kubelet's own limit the probe would say no for an agent that is slow."""
    told = workload("sidecar-vllm")[probe]
    words = " ".join(told["exec"]["command"]).split()
    limits = [float(words[i + 1]) for i, word in enumerate(words) if word == "-m"]
    assert limits
    assert sum(limits) < told["timeoutSeconds"]
