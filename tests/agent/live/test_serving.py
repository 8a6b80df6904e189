"""A real agent beside a fake vLLM: from its metric page to the finding."""

import threading
import time

from tests.modelserver import model_server, send
from tests.running import wait_for

CONFIG = """
probes:
  serving:
    cadence: 500ms
    servers: [{{name: chat, url: "{url}"}}]
rules:
  serving-stalled: {{thresholds: {{stalled: 4s}}, hold: 1s}}
"""
OF = '{engine="0",model_name="m"}'


class Vllm:
    """A page that goes on with time; once `hung`, requests pile up and nothing comes out."""

    def __init__(self):
        self.began = time.monotonic()
        self.hung = threading.Event()
        self.steps = 0.0
        self.stopped_at = 0.0

    def page(self, handler):
        passed = time.monotonic() - self.began
        if not self.hung.is_set():
            self.stopped_at = passed
        waiting = 0 if not self.hung.is_set() else 5 + int(passed)
        lines = [
            f"vllm:num_requests_running{OF} 8",
            f"vllm:num_requests_waiting{OF} {waiting}",
            f"vllm:kv_cache_usage_perc{OF} 0.5",
            f"vllm:iteration_tokens_total_count{OF} {100 * self.stopped_at}",
            f"vllm:generation_tokens_total{OF} {800 * self.stopped_at}",
        ]
        send(handler, 200, "\n".join(lines) + "\n")


def test_an_engine_that_hangs_behind_a_health_of_200(start):
    engine = Vllm()
    with model_server(metrics=engine.page, health="") as server:
        agent = start(config=CONFIG.format(url=server.url))
        wait_for(lambda: agent.metric("gpudiag_serving_generation_tokens_total", server="chat"))
        time.sleep(8)
        assert agent.firing("serving-stalled") == []
        engine.hung.set()
        (finding,) = wait_for(lambda: agent.firing("serving-stalled"), seconds=60)
        assert (finding["cause"], finding["subject"]) == ("engine-hung", {"server": "chat"})
        wait_for(lambda: agent.metric("gpudiag_serving_ready", server="chat") == [1.0])
