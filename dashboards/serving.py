"""Serving: whether it answers, its queue and cache, its latency, and the canary beside the GPU."""

from __future__ import annotations

from gpudiag.dashboards import registry, serving_canary, serving_traffic
from gpudiag.dashboards.common import YES_NO_GOOD, Row, dashboard, findings, unknown
from gpudiag.dashboards.marks import ACTIONS, SERVERS, XIDS
from gpudiag.dashboards.panels import (
    NO_LIMIT,
    Limits,
    Query,
    Text,
    from_rule,
    graph,
    listing,
    timeline,
)
from gpudiag.dashboards.quirks import Json
from gpudiag.dashboards.serving_traffic import ONE
from gpudiag.dashboards.variables import SERVER

_STALLED = "serving-stalled"
_SLOW = "serving-latency-high"
_SETTINGS = ("quantization", "max_model_len", "kv_limit", "prefix_caching")


def build() -> Json:
    """The dashboard as JSON."""
    return dashboard(
        registry.SERVING,
        "Servers of models: whether they answer, what waits and why, and what the GPU and the host"
        " did at that moment.",
        ("cluster", "node", "server", "model", "gpu"),
        (SERVERS, XIDS, ACTIONS),
        (
            Row("What is wrong", (findings(), unknown())),
            _state(),
            _queue(),
            _cache(),
            serving_traffic.latency(),
            serving_canary.beside(),
            serving_traffic.traffic(),
            serving_canary.memory(),
        ),
    )


def _state() -> Row:
    states = (
        ("up", "answers"),
        ("engine_up", "engine lives"),
        ("model_loaded", "model is loaded"),
        ("ready", "says it is ready"),
    )
    names = {"node": "node", "server": "server", "model": "model", "engine": "engine"}
    return Row(
        "Does it serve",
        (
            timeline(
                Text("Up and ready", "What the server says of itself, and whether its engine's"
                     " process lives.", "short",
                     Limits("no: requests fail or wait; up and not ready is normal while it loads"),
                     "not-ready"),
                *(
                    Query(f"gpudiag_serving_{name}{{{SERVER}}}", f"{ONE} {words}")
                    for name, words in states
                ),
                words=YES_NO_GOOD,
            ),
            listing(
                Text("Settings", "How each server was configured.", "short",
                     Limits("none: these are settings")),
                Query(f"gpudiag_serving_config_info{{{SERVER}}}", ONE),
                names=names | {name: name.replace("_", " ") for name in _SETTINGS},
                width=12,
                height=6,
            ),
        ),
    )  # fmt: skip


def _queue() -> Row:
    waiting = Limits("none: a queue alone is load; one beside an engine that stands still is not")
    return Row(
        "Queue",
        (
            graph(
                Text("Running", "Requests in the batch, and the most it may hold.", "short",
                     NO_LIMIT, _SLOW),
                Query(f"gpudiag_serving_requests_running{{{SERVER}}}", ONE),
                Query(f"gpudiag_serving_batch_limit{{{SERVER}}}", f"{ONE} limit"),
                width=6,
            ),
            graph(
                Text("Waiting", "Requests to be scheduled, by reason where it is known, and those"
                     " that the front end accepted and has not answered.", "short", waiting,
                     _STALLED),
                Query(f"gpudiag_serving_requests_waiting{{{SERVER}}}", f"{ONE} {{{{reason}}}}"),
                Query(f"gpudiag_serving_requests_unanswered{{{SERVER}}}", f"{ONE} unanswered"),
                width=6,
            ),
            graph(
                Text("Passes of the engine", "Passes that did work, per second: its heartbeat.",
                     "cps", Limits("none: 0 is right while nothing runs or waits, and a stall"
                                   " otherwise"), _STALLED),
                Query(
                    f"rate(gpudiag_serving_engine_steps_total{{{SERVER}}}[$__rate_interval])", ONE
                ),
                width=6,
            ),
            serving_traffic.times(
                Text("Time in the queue", "From arrival to the batch: half of the requests, and 99"
                     " of 100.", "s", NO_LIMIT, _SLOW),
                "queue_seconds",
                width=6,
            ),
        ),
    )  # fmt: skip


def _cache() -> Row:
    hits = "gpudiag_serving_prefix_cache_hits_total"
    queries = "gpudiag_serving_prefix_cache_queries_total"
    return Row(
        "KV cache",
        (
            graph(
                Text("KV cache in use", "Share; full is how it should be under load, full with"
                     " preemptions and a queue is not.", "percentunit",
                     from_rule("serving-request-jitter", "kv_full"), _SLOW),
                Query(f"gpudiag_serving_kv_cache_usage_ratio{{{SERVER}}}", ONE),
                top=1,
                width=6,
            ),
            graph(
                Text("Room for tokens", "Of the KV cache, and the whole.", "short",
                     Limits("none: sizes differ; room that does not come back when idle is a leak"),
                     "serving-memory-growth"),
                Query(f"gpudiag_serving_kv_tokens_available{{{SERVER}}}", ONE),
                Query(f"gpudiag_serving_kv_tokens_capacity{{{SERVER}}}", f"{ONE} whole"),
                width=6,
            ),
            graph(
                Text("Preemptions", "Requests thrown out of the batch for want of cache, a minute.",
                     "cpm", from_rule("serving-request-jitter", "thrown_out"),
                     "serving-request-jitter"),
                Query(
                    f"60 * rate(gpudiag_serving_preemptions_total{{{SERVER}}}[$__rate_interval])",
                    ONE,
                ),
                width=6,
            ),
            graph(
                Text("Prefix cache hits", "Share of the tokens that were looked up.", "percentunit",
                     Limits("none: it depends on the prompts; a fall under the same traffic makes"
                            " requests slower"), _SLOW),
                Query(
                    f"rate({hits}{{{SERVER}}}[$__rate_interval])"
                    f" / rate({queries}{{{SERVER}}}[$__rate_interval])",
                    ONE,
                ),
                top=1,
                width=6,
            ),
        ),
    )  # fmt: skip
