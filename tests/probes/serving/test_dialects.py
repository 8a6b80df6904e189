"""Each server's own page in our words: names of several versions, units, and the known traps."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.agent.translate import Translator
from gpudiag.probes import Sample
from gpudiag.probes.serving.engines import engines, of_page
from gpudiag.probes.serving.pages import rows

PAGES = Path(__file__).parent / "pages"


def told(name, server="s"):
    """Ours by name and labels (without the server), from a page of that server."""
    found = list(rows((PAGES / f"{name}.txt").read_text()))
    theirs = [
        Sample(metric, tuple(sorted((*pairs, ("server", server)))), 1.0, value)
        for metric, pairs, value in found
    ]
    ours = [s for s in Translator().samples(theirs) if s.metric.startswith("gpudiag_serving_")]
    assert all(dict(s.labels)["server"] == server for s in ours)
    several = len({dict(s.labels).get("engine") for s in ours} - {None}) > 1
    keys = ("outcome", "reason", "le", *(["engine"] if several else []))
    unlike = {(s.metric, tuple((k, v) for k, v in s.labels if k != "model")) for s in ours}
    assert len(unlike) == len({(s.metric, s.labels) for s in ours}), "told twice"
    return {
        (s.metric.removeprefix("gpudiag_serving_"), *sorted(v for k, v in s.labels if k in keys)): (
            s.value
        )
        for s in ours
    }


WANTED = {
    "vllm-0.33": {
        ("requests_running",): 12.0,
        ("requests_waiting", "capacity"): 2.0,
        ("requests_waiting", "deferred"): 1.0,
        ("requests_waiting",): None,
        ("kv_cache_usage_ratio",): 0.653,
        ("kv_tokens_capacity",): 16000.0,
        ("preemptions_total",): 7.0,
        ("prefix_cache_queries_total",): 1000.0,
        ("prefix_cache_hits_total",): 250.0,
        ("requests_total", "ok"): 100.0,
        ("requests_total", "aborted"): 4.0,
        ("requests_total", "error"): 1.0,
        ("requests_total", "rejected"): 6.0,
        ("engine_steps_total",): 5000.0,
        ("prompt_tokens_total",): 40000.0,
        ("generation_tokens_total",): 20000.0,
        ("nonfinite_total",): 0.0,
        ("ttft_seconds_bucket", "0.5"): 80.0,
        ("ttft_seconds_count",): 105.0,
        ("ttft_seconds_sum",): 33.0,
        ("inter_token_seconds_count",): 20000.0,
        ("request_seconds_count",): 105.0,
        ("queue_seconds_count",): 105.0,
        ("request_prompt_tokens_count",): 105.0,
        ("request_generation_tokens_count",): 105.0,
    },
    "vllm-0.10.2": {
        ("requests_running", "0"): 3.0,
        ("requests_running", "1"): 4.0,
        ("kv_cache_usage_ratio", "0"): 0.5,
        ("kv_cache_usage_ratio", "1"): 0.6,
        ("prefix_cache_queries_total", "0"): 800.0,
        ("prefix_cache_hits_total", "0"): 200.0,
        ("inter_token_seconds_bucket", "0", "0.01"): 40.0,
        ("inter_token_seconds_count", "0"): 50.0,
    },
    "vllm-0.8.5": {
        ("kv_cache_usage_ratio",): 0.25,
        ("prefix_cache_queries_total",): 960.0,
        ("prefix_cache_hits_total",): 480.0,
        ("inter_token_seconds_count",): 11.0,
        ("engine_steps_total",): 9.0,
        ("kv_tokens_capacity",): 80000.0,
    },
    "vllm-in-ray": {
        ("requests_running",): 11.0,
        ("requests_waiting",): 2.0,
        ("kv_cache_usage_ratio",): 0.7,
        ("preemptions_total",): 3.0,
    },
    "sglang-0.5.23": {
        ("requests_running",): 8.0,
        ("requests_waiting", "queue"): 5.0,
        ("requests_waiting", "grammar"): 1.0,
        ("kv_cache_usage_ratio",): 0.91,
        ("kv_tokens_capacity",): 500000.0,
        ("kv_tokens_available",): 45000.0,
        ("preemptions_total",): 3.0,
        ("engine_steps_total",): 750.0,
        ("prefix_cache_hits_total",): 100.0,
        ("prefix_cache_queries_total",): 400.0,
        ("prompt_tokens_total",): 400.0,
        ("requests_total", "ok"): 44.0,
        ("requests_total", "aborted"): 2.0,
        ("requests_total", "rejected"): 9.0,
        ("requests_total", "200"): None,
        ("ttft_seconds_bucket", "0.1"): 4.0,
        ("queue_seconds_count",): 44.0,
        ("request_prompt_tokens_count",): 44.0,
        ("request_generation_tokens_count",): 44.0,
        ("inter_token_seconds_count",): 856.0,
    },
    "sglang-0.5.2": {
        ("requests_running",): 8.0,
        ("preemptions_total",): 4.0,
        ("queue_seconds_bucket", "0.1"): 10.0,
        ("queue_seconds_count",): 12.0,
    },
    "tgi-3": {
        ("requests_running",): 6.0,
        ("requests_waiting",): 2.0,
        ("kv_cache_usage_ratio",): 0.75,
        ("kv_tokens_capacity",): 16000.0,
        ("requests_total", "ok"): 120.0,
        ("requests_total", "rejected"): 7.0,
        ("requests_total", "error"): 1.0,
        ("engine_steps_total",): 440.0,
        ("generation_tokens_total",): 9000.0,
        ("prompt_tokens_total",): 30000.0,
        ("request_prompt_tokens_count",): 120.0,
        ("request_generation_tokens_sum",): 9000.0,
        ("request_seconds_bucket", "1"): 100.0,
        ("request_seconds_sum",): 60.5,
    },
    "triton": {
        ("requests_waiting", "core"): 9.0,
        ("requests_total", "ok"): 70.0,
        ("requests_total", "rejected"): 2.0,
        ("requests_total", "error"): 2.0,
        ("engine_steps_total",): 35.0,
        ("request_seconds_sum",): 14.0,
        ("request_seconds_count",): 70.0,
        ("queue_seconds_sum",): 0.7,
        ("ttft_seconds_bucket", "0.1"): 20.0,
        ("ttft_seconds_bucket", "+Inf"): 70.0,
        ("ttft_seconds_sum",): 9.0,
        ("ttft_seconds_count",): 70.0,
    },
    "triton-trtllm": {
        ("requests_running",): 14.0,
        ("requests_waiting", "backend"): 4.0,
        ("requests_waiting", "core"): 2.0,
        ("batch_limit",): 512.0,
        ("kv_cache_usage_ratio",): 0.4875,
        ("kv_tokens_capacity",): 51200.0,
        ("kv_tokens_available",): 26240.0,
    },
    "triton-trtllm-serve": {
        ("requests_running",): 7.0,
        ("requests_waiting",): 1.0,
        ("kv_cache_usage_ratio",): 0.33,
    },
    "dynamo": {
        ("requests_unanswered",): 4.0,
        ("requests_waiting",): 1.0,
        ("kv_cache_usage_ratio",): 0.4,
        ("requests_total", "ok"): 42.0,
        ("requests_total", "error"): 2.0,
        ("requests_total", "rejected"): 5.0,
        ("requests_total", "aborted"): 3.0,
        ("prefix_cache_hits_total",): 640.0,
        ("prefix_cache_queries_total",): 6400.0,
        ("prompt_tokens_total",): 6400.0,
        ("generation_tokens_total",): 8400.0,
        ("inter_token_seconds_count",): 8358.0,
        ("request_seconds_sum",): 126.5,
        ("request_generation_tokens_count",): 42.0,
    },
    "dynamo-worker": {("requests_running",): 9.0, ("kv_cache_usage_ratio",): 0.12},
    "ray-serve": {
        ("requests_running",): 9.0,
        ("requests_unanswered",): 9.0,
        ("requests_waiting",): 3.0,
        ("requests_total", "ok"): 40.0,
        ("requests_total", "error"): 2.0,
        ("engine_up",): 1.0,
        ("request_seconds_bucket", "0.005"): 3.0,
        ("request_seconds_sum",): 0.25,
        ("request_seconds_count",): 10.0,
    },
}


@pytest.mark.parametrize(("page", "wanted"), WANTED.items())
def test_a_page_is_told_in_our_words(page, wanted):
    found = told(page)
    assert {key: found.get(key) for key in wanted} == wanted


KINDS = {"vllm-in-ray": "ray-serve"}


@pytest.mark.parametrize("page", sorted(path.stem for path in PAGES.glob("*.txt")))
def test_the_kind_is_told_by_the_page(page):
    names = {row[0] for row in rows((PAGES / f"{page}.txt").read_text())}
    engine = of_page(names)
    assert engine is not None
    assert page.startswith(engine.name) or KINDS[page] == engine.name


def test_every_page_is_expected():
    assert {path.stem for path in PAGES.glob("*.txt")} == WANTED.keys()


def test_every_kind_has_a_page_here():
    pages = [path.stem for path in PAGES.glob("*.txt")]
    assert all(any(page.startswith(name) for page in pages) for name in engines())


def test_a_page_of_something_else_is_no_server():
    assert of_page(["node_load1", "process_cpu_seconds_total"]) is None


def test_two_servers_of_different_kinds_do_not_silence_each_other():
    translator = Translator()
    both = [
        Sample("vllm:num_requests_running", (("model_name", "a"), ("server", "a")), 1.0, 1.0),
        Sample("sglang:num_running_reqs", (("model_name", "b"), ("server", "b")), 1.0, 2.0),
    ]
    assert [s.value for s in translator.samples(both)] == [1.0, 2.0]


def test_a_process_that_is_gone_takes_its_part_with_it():
    translator = Translator()

    def usage(pid, time, value):
        of = (("pid", pid), ("server", "a"))
        return translator.samples([Sample("vllm:kv_cache_usage_perc", of, time, value)])[0].value

    assert usage("1", 0.0, 0.9) == 0.9
    assert usage("2", 30.0, 0.1) == 0.9
    assert usage("2", 90.0, 0.1) == 0.1
