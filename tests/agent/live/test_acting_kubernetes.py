"""Real agents in a cluster: its API server's double over HTTPS, and what they do through it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from gpudiag.agent.kubernetes.times import micro
from tests.agent.live.audit import decisions, lines
from tests.kubepods import event, job, path_of, pod
from tests.kubeserver import TOKEN
from tests.running import RunningAgent, free_port, wait_for
from tests.tools import needs

pytestmark = needs("openssl", "openssl")

XID = "NVRM: Xid (PCI:0000:1b:00): 79, pid=4242, name=python, GPU has fallen off the bus."

NODE = """
node: {{name: n1}}
kubernetes: {{use: [{use}], enabled: true, timeout: 5s, service_account: {account}}}
actions:
  mode: auto
  policy: {{gpu-xid/xid-79: tell, gpu-lost/*: notify}}
  ladders: {{tell: [{{action: {action}, promise: 1h, hold: 1, carry: true}}]}}
  commands: {{node=n1: {{argv: [mkdir, {made}]}}}}
"""


@pytest.fixture
def agents(cluster, tmp_path, sim):
    started = []

    def one(name, config, **values):
        text = config.format(account=cluster.folder, **values)
        own = {"POD_NAME": name, "CONTAINER_NAME": "gpudiag"}
        environment = {**sim.environment, **cluster.environment, **own}
        folder = tmp_path / name
        folder.mkdir()
        agent = RunningAgent(folder, environment, text)
        started.append(agent)
        return agent.start()

    yield one
    for agent in started:
        agent.stop(signal.SIGKILL)


def told(cluster):
    return [(e["regarding"]["kind"], e["reason"]) for e in cluster.objects.of("events")]


def test_a_broken_gpu_marks_its_node_and_says_so(cluster, agents, tmp_path):
    node = cluster.objects.add("/api/v1/nodes/n1", {"kind": "Node"})
    values = {"use": "events, mark_node", "action": "mark_node", "made": tmp_path / "no"}
    agent = agents("agent-x", NODE, **values)
    agent.kernel(XID)
    wait_for(lambda: ("done", "mark_node") in decisions(agent), seconds=40)
    (condition,) = node["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("True", "GpuXid79")
    assert "spec" not in node
    wait_for(lambda: len(told(cluster)) >= 2)
    assert told(cluster) == [("Node", "ActionBegun"), ("Node", "ActionDone")]
    everything = "".join(p.read_text("latin-1") for p in agent.folder.rglob("*") if p.is_file())
    assert TOKEN not in everything


def test_of_two_agents_that_see_the_same_one_acts(cluster, agents, tmp_path):
    values = {"use": "lease", "action": "command", "made": tmp_path / "made"}
    both = [agents(name, NODE, **values) for name in ("agent-x", "agent-y")]
    for agent in both:
        agent.kernel(XID)
    wait_for(lambda: all(map(lines, both)), seconds=40)
    # Two more rounds of acting, in which the one that came late asks again.
    time.sleep(11)
    made = [decisions(agent) for agent in both]
    assert sorted(made) == [[], [("begun", "command"), ("done", "command")]]
    idle = both[made.index([])]
    assert "another agent holds the lease on node=n1" in lines(idle)[0].why


def test_an_api_that_is_away_stops_nothing_but_what_needs_it(cluster, agents, tmp_path):
    cluster.faults += [("/events", fault) for fault in ("hang", 500, "reset", "hang")]
    cluster.faults += [("/leases", 503)]
    values = {"use": "events, lease", "action": "command", "made": tmp_path / "made"}
    agent = agents("agent-x", NODE, **values)
    agent.kernel(XID)
    wait_for(lambda: ("done", "command") in decisions(agent), seconds=60)
    assert (tmp_path / "made").is_dir()
    assert [line.decision for line in lines(agent)] == ["refused", "begun", "done"]
    assert "no lease on node=n1" in agent.log()


SERVER = """
node: {{role: sidecar}}
kubernetes: {{use: [events, evict_pod], service_account: {account}}}
probes: {{serving: {{cadence: 500ms, servers: [{{name: chat, url: "http://127.0.0.1:{port}"}}]}}}}
rules: {{serving-stalled: {{thresholds: {{stalled: 4s}}, hold: 1s, clear: 1s}}}}
actions:
  mode: auto
  workload: chat
  ladders: {{hung-server: [{{action: evict_pod, promise: 1h, hold: 1}}]}}
"""


@pytest.fixture
def hung(cluster, agents):
    """An agent beside a server that hangs, in a pod of a Job; the pod is given."""
    own = pod("chat-0", owner="Job/llama")
    for one in (own, job()):
        cluster.objects.add(path_of(one), one)
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "tests.fakevllm", str(port), "2"])

    def begin():
        agent = agents("chat-0", SERVER, port=port)
        wait_for(lambda: agent.metric("gpudiag_serving_generation_tokens_total"))
        server.send_signal(signal.SIGUSR1)
        return agent

    yield own, begin
    server.kill()
    server.wait()


def test_a_hung_server_has_its_pod_evicted_once_its_budget_allows_it(cluster, hung):
    own, begin = hung
    cluster.objects.disruptions[path_of(own)] = 0
    agent = begin()
    wait_for(lambda: lines(agent), seconds=60)
    assert "not now, to be asked again in 10 s" in lines(agent)[0].why
    assert "deletionTimestamp" not in own["metadata"]
    cluster.objects.disruptions[path_of(own)] = 1
    wait_for(lambda: ("done", "evict_pod") in decisions(agent), seconds=60)
    assert "deletionTimestamp" in own["metadata"]
    (done,) = [line for line in lines(agent) if line.decision == "done"]
    assert "Job llama starts another" in done.why
    wait_for(lambda: told(cluster)[-2:] == [("Pod", "ActionDone"), ("Job", "ActionDone")])


def evictions(cluster):
    asked = cluster.requests("POST", "/eviction")
    return [a for a in asked if "dryRun" not in a.body["deleteOptions"]]


@pytest.mark.long
def test_an_agent_killed_while_it_evicts_does_not_evict_the_next_pod(cluster, hung):
    own, begin = hung
    # The dry run before it is answered.
    cluster.faults += [("/eviction", 201), ("/eviction", "hang-after")]
    agent = begin()
    wait_for(lambda: evictions(cluster), seconds=60)
    agent.send(signal.SIGKILL)
    agent.process.wait(10)
    cluster.objects.add(path_of(own), pod("chat-0", owner="Job/llama"))
    agent.start()
    wait_for(lambda: ("done", "evict_pod") in decisions(agent), seconds=60)
    wait_for(lambda: agent.firing("serving-stalled"), seconds=60)
    # Two rounds of acting in which the server hangs still.
    time.sleep(11)
    assert len(evictions(cluster)) == 1
    assert decisions(agent) == [("begun", "evict_pod"), ("done", "evict_pod")]


WATCHED = """
node: {{role: sidecar}}
kubernetes: {{use: [pod_events], service_account: {account}}}
rules: {{crash-after-deploy: {{hold: 1s}}}}
"""


def test_a_pod_that_dies_again_and_again_is_found_by_the_clusters_own_words(cluster, agents):
    agent = agents("chat-0", WATCHED)
    cluster.objects.add(
        "/api/v1/namespaces/ml/events/chat-0.own",
        event("BackOff", "of the agent itself", at=micro(time.time()), container="gpudiag"),
    )
    said = [("Started", "Started container vllm")]
    said += [("BackOff", "Back-off restarting failed container vllm")] * 2
    for number, (reason, message) in enumerate(said):
        at = micro(time.time())
        kind = "Normal" if reason == "Started" else "Warning"
        happened = event(reason, message, at=at, type=kind)
        cluster.objects.add(f"/api/v1/namespaces/ml/events/chat-0.{number}", happened)
        time.sleep(1.0)
    (found,) = wait_for(lambda: agent.firing("crash-after-deploy"), seconds=40)
    assert found["subject"] == {"server": "chat-0"}
    seen = agent.get("/api/v1/events?source=kubernetes")
    assert "pod/chat-0 Back-off" in seen
    assert "of the agent itself" not in seen
