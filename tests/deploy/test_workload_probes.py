"""The probes of the vLLM pod, as its kubelet runs them, beside a real agent and a fake server."""

import http.server
import subprocess
import threading
import time

import pytest

from gpudiag.agent.actions.levers.workload import Workload
from tests.deploy.kustomized import overlay
from tests.deploy.pods import workload
from tests.running import RunningAgent, free_port
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
    for agent in started:
        agent.stop()


def says_yes(probe, server, agent):
    command = workload("sidecar-vllm")[probe]["exec"]["command"]
    told = [part.replace(SERVER, f":{server}").replace(AGENT, f":{agent}/") for part in command]
    assert told != command, "the probe asks other ports"
    return subprocess.run(told, check=False, timeout=20).returncode == 0


def test_both_say_yes_while_nothing_was_decided(server, beside):
    agent = beside(server)
    assert says_yes("readinessProbe", server, agent)
    assert says_yes("livenessProbe", server, agent)


def test_readiness_says_no_where_load_is_shed_and_the_server_lives_on(server, beside):
    agent = beside(server, lambda flags: flags.shed("plan", "kv-cache-exhausted"))
    assert not says_yes("readinessProbe", server, agent)
    assert says_yes("livenessProbe", server, agent)


def test_liveness_says_no_where_a_restart_was_decided(beside):
    agent = beside(free_port(), lambda flags: flags.restart())
    assert not says_yes("livenessProbe", free_port(), agent)


def test_an_agent_that_is_away_takes_no_server_out(server):
    assert says_yes("readinessProbe", server, free_port())
    assert says_yes("livenessProbe", server, free_port())


def test_readiness_says_no_where_the_server_is_away(beside):
    nobody = free_port()
    assert not says_yes("readinessProbe", nobody, beside(nobody))


@pytest.mark.parametrize("probe", ["readinessProbe", "livenessProbe"])
def test_the_kubelet_waits_longer_than_the_probe_itself(probe):
    """Ended by the kubelet's own limit the probe would say no for an agent that is slow."""
    told = workload("sidecar-vllm")[probe]
    words = " ".join(told["exec"]["command"]).split()
    limits = [float(words[i + 1]) for i, word in enumerate(words) if word == "-m"]
    assert limits
    assert sum(limits) < told["timeoutSeconds"]
