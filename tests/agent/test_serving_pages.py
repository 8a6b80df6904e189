"""From the page of a vLLM over an hour to what the agent finds, with the clock run faster."""

from __future__ import annotations

from gpudiag.agent.engine import Engine, window_for
from gpudiag.agent.findings.book import Book
from gpudiag.agent.rules import RULES, default_limits
from gpudiag.probes import Sample
from gpudiag.probes.serving.scrape import Server
from gpudiag.probes.serving.servers import Servers
from tests.modelserver import model_server, send

SPACING = 15.0
FULL_AT = 1500.0
OF = '{engine="0",model_name="m"}'


class Vllm:
    """Busy and well until `full_at`; then its cache is full, requests wait and are thrown out."""

    def __init__(self, full_at):
        self.now = 0.0
        self.full_at = full_at

    def page(self, handler):
        well, full = min(self.now, self.full_at), max(0.0, self.now - self.full_at)
        tokens = 3300.0 * well + 2000.0 * full
        lines = [
            f"vllm:num_requests_running{OF} {96 if full else 80}",
            f"vllm:num_requests_waiting{OF} {30 + full / 15.0 if full else 0}",
            f"vllm:kv_cache_usage_perc{OF} {0.99 if full else 0.8}",
            f"vllm:num_preemptions_total{OF} {full}",
            f"vllm:generation_tokens_total{OF} {tokens}",
            f"vllm:iteration_tokens_total_count{OF} {27.0 * self.now}",
            f'vllm:request_success_total{OF[:-1]},finished_reason="stop"}} {tokens / 800.0}',
        ]
        send(handler, 200, "\n".join(lines) + "\n")


def firing(full_at, until):
    """(symptom, cause, subject) of what fires at the end."""
    vllm = Vllm(full_at)
    limits = {name: default_limits(rule) for name, rule in RULES.items()}
    engine = Engine(RULES, limits, window_for(RULES), Book(RULES))
    with model_server(metrics=vllm.page, health="") as at:
        probe = Servers([Server("chat", at.url)], now=lambda: vllm.now)
        while vllm.now < until:
            vllm.now += SPACING
            engine.ingest(s for s in probe.read() if isinstance(s, Sample))
            engine.evaluate(vllm.now)
        probe.close()
    found = [f for f in engine.book.findings() if f.state == "firing"]
    return {(f.symptom, f.cause, f.subject) for f in found}


def test_a_cache_that_is_full_and_throws_requests_out():
    found = firing(FULL_AT, FULL_AT + 900.0)
    assert ("serving-request-jitter", "preemption-thrash", (("server", "chat"),)) in found


def test_a_busy_server_is_left_alone():
    assert firing(9999.0, FULL_AT + 900.0) == set()
