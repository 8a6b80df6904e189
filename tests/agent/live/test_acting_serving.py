"""A real agent, a server that it scrapes, and a kubelet that asks its probes: acting on servers."""

from __future__ import annotations

import signal
import sys
import time

from tests.agent.live.audit import decisions, lines
from tests.kubelet import Kubelet
from tests.modelserver import model_server
from tests.running import free_port, wait_for

CONFIG = """
probes:
  serving:
    cadence: 500ms
    servers: [{{name: chat, url: "http://127.0.0.1:{port}"}}]
rules:
  serving-stalled: {{thresholds: {{stalled: 4s}}, hold: 1s, clear: 1s}}
actions:
  mode: auto
  workload: chat
  floor: {floor}/v1/models
  ladders:
    hung-server:
      - {{action: unready, promise: 4s, carry: true, hold: 1}}
      - {{action: restart_container, promise: 60s, hold: 1}}
"""


def test_a_busy_server_is_left_alone_and_a_hung_one_restarted_once(start):
    port = free_port()
    command = [sys.executable, "-m", "tests.fakevllm", str(port), "2"]
    with model_server(v1__models={"data": []}) as other:
        agent = start(config=CONFIG.format(port=port, floor=other.url))
        with Kubelet(command, f"http://127.0.0.1:{agent.port}/workload") as kubelet:
            wait_for(lambda: agent.metric("gpudiag_serving_generation_tokens_total"))
            # Full for longer than it takes to call it stalled, and twice a round of acting.
            time.sleep(12)
            assert (agent.firing("serving-stalled"), lines(agent), kubelet.restarts) == ([], [], 0)
            kubelet.container.send_signal(signal.SIGUSR1)
            wait_for(lambda: ("undone", "unready") in decisions(agent), seconds=60)
            wait_for(lambda: kubelet.ready == [True, False, True])
            # A kubelet that is still told no would restart the new one within two seconds.
            time.sleep(5)
            assert kubelet.restarts == 1
    # Its success is told a minute later, where the test takes so long.
    assert decisions(agent)[:6] == [
        *[("begun", "unready"), ("done", "unready"), ("not_verified", "unready")],
        *[("begun", "restart_container"), ("done", "restart_container"), ("undone", "unready")],
    ]
