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
    return {
        (s.metric.removeprefix("gpudiag_serving_"), *sorted(v for k, v in s.labels if k in KEYS)): (
            s.value
        )
        for s in ours
    }


KEYS = ("outcome", "reason", "le")


@pytest.mark.parametrize(
    ("page", "wanted"),
    [
        (
            "vllm-0.33",
            {
                ("requests_running",): 12.0,
                ("requests_waiting",): 3.0,
                ("kv_cache_usage_ratio",): 0.653,
                ("preemptions_total",): 7.0,
                ("prefix_cache_queries_total",): 1000.0,
                ("prefix_cache_hits_total",): 250.0,
                ("requests_total", "ok"): 100.0,
                ("requests_total", "aborted"): 4.0,
                ("requests_total", "error"): 1.0,
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
        ),
        (
            "vllm-0.8.5",
            {
                ("kv_cache_usage_ratio",): 0.25,
                ("prefix_cache_queries_total",): 60.0,
                ("prefix_cache_hits_total",): 30.0,
                ("inter_token_seconds_count",): 11.0,
                ("engine_steps_total",): 9.0,
            },
        ),
        (
            "sglang-0.5.23",
            {
                ("requests_running",): 8.0,
                ("requests_waiting", "queue"): 5.0,
                ("requests_waiting", "grammar"): 1.0,
                ("kv_cache_usage_ratio",): 0.91,
                ("kv_tokens_capacity",): 500000.0,
                ("preemptions_total",): 3.0,
                ("prefix_cache_hits_total",): 100.0,
                ("requests_total", "ok"): 44.0,
                ("requests_total", "aborted"): 2.0,
                ("ttft_seconds_bucket", "0.1"): 4.0,
                ("queue_seconds_count",): 44.0,
            },
        ),
        (
            "tgi-3",
            {
                ("requests_running",): 6.0,
                ("requests_waiting",): 2.0,
                ("requests_total", "ok"): 120.0,
                ("requests_total", "rejected"): 7.0,
                ("requests_total", "error"): 1.0,
                ("engine_steps_total",): 440.0,
                ("request_seconds_bucket", "1"): 100.0,
                ("request_seconds_sum",): 60.5,
            },
        ),
        (
            "triton",
            {
                ("requests_waiting",): 9.0,
                ("requests_total", "ok"): 70.0,
                ("requests_total", "rejected"): 2.0,
                ("requests_total", "error"): 2.0,
                ("engine_steps_total",): 35.0,
                ("ttft_seconds_bucket", "0.1"): 20.0,
                ("ttft_seconds_bucket", "+Inf"): 70.0,
                ("ttft_seconds_sum",): 9.0,
                ("ttft_seconds_count",): 70.0,
            },
        ),
        (
            "dynamo",
            {
                ("requests_unanswered",): 4.0,
                ("requests_waiting",): 1.0,
                ("kv_cache_usage_ratio",): 0.4,
                ("requests_total", "ok"): 42.0,
                ("requests_total", "error"): 2.0,
            },
        ),
        (
            "ray-serve",
            {
                ("requests_waiting",): 3.0,
                ("request_seconds_bucket", "0.005"): 3.0,
                ("request_seconds_sum",): 0.25,
                ("request_seconds_count",): 10.0,
            },
        ),
    ],
)
def test_a_page_is_told_in_our_words(page, wanted):
    found = told(page)
    assert {key: found.get(key) for key in wanted} == wanted


@pytest.mark.parametrize("page", sorted(path.stem for path in PAGES.glob("*.txt")))
def test_the_kind_is_told_by_the_page(page):
    names = [row[0] for row in rows((PAGES / f"{page}.txt").read_text())]
    engine = of_page(names)
    assert engine is not None
    assert page.startswith(engine.name)


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
