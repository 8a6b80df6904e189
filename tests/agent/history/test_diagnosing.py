from __future__ import annotations

import itertools
import resource
import time

import pytest

from gpudiag.agent.history.access import Access
from gpudiag.agent.history.diagnosing import Question, diagnose
from gpudiag.agent.history.failing import ServerError
from gpudiag.agent.history.listing import Chosen
from gpudiag.agent.history.report import episodes
from gpudiag.agent.history.transfer import Patience
from gpudiag.probes import labels
from tests.agent.history.remembering import Remembering
from tests.promdouble import Reply, double, failure

QUICK = Patience(seconds=60.0, silence=60.0, max_bytes=1024**2, backoff=0.01, longest_wait=0.05)
START, END = 1_700_000_000.0, 1_700_003_600.0
FLAG = "nvidia_smi_clocks_event_reasons_hw_thermal_slowdown"


def gpu(**more: str):
    return labels(**{"uuid": "1", "instance": "n1:9835", "job": "smi"} | more)


def readings(value, every=15.0, start=START, end=END, shift=0.0):
    count = int((end - start) / every)
    return [(start + shift + every * (i + 1), value(i)) for i in range(count)]


def hot(**more: str):
    """A GPU throttled in the second half hour."""
    return {
        (FLAG, gpu(**more)): readings(lambda i: float(i >= 120)),
        ("nvidia_smi_temperature_gpu", gpu(**more)): readings(lambda _: 90.0),
    }


def asked(answers: Remembering, **more):
    with double(answers) as server:
        question = Question(Access(server.url), START, END, patience=QUICK, **more)
        return diagnose(question, lambda *_: None), server


def symptoms(found):
    return [(one.node, one.last.symptom) for one in episodes(found)]


def test_a_hot_gpu_is_found_and_the_node_named_by_its_address():
    found, _ = asked(Remembering(hot()))
    assert symptoms(found) == [("n1", "thermal-throttle")]
    (node,) = found.nodes
    assert (node.step, node.samples) == (15.0, 480)


def test_less_is_asked_for_where_the_server_finds_it_too_much():
    found, server = asked(Remembering(hot(), most=60))
    assert symptoms(found) == [("n1", "thermal-throttle")]
    assert found.nodes[0].samples == 480
    assert len(server.asked) > 10


def test_two_scrapers_of_one_target_count_once_and_it_is_said():
    pair = hot(prometheus_replica="a") | {
        key: [(at + 3.0, value) for at, value in points[:-9]]
        for key, points in hot(prometheus_replica="b").items()
    }
    found, _ = asked(Remembering(pair))
    assert symptoms(found) == [("n1", "thermal-throttle")]
    assert found.nodes[0].samples == 480
    assert any("two scrapers" in note for note in found.nodes[0].notes)
    assert found.listing.twice == 2


def test_a_label_that_changes_on_the_way_ends_nothing():
    turned = {
        (name, tuple(sorted((*pairs, ("pod", pod))))): points
        for (name, pairs), whole in hot().items()
        for pod, points in (("a", whole[:150]), ("b", whole[150:]))
    }
    found, _ = asked(Remembering(turned))
    ((_, symptom),) = symptoms(found)
    assert symptom == "thermal-throttle"
    assert len(episodes(found)[0].times) == 1


def test_warnings_gaps_and_resets_are_said():
    counter = ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", labels(UUID="GPU-1", instance="n1:9400"))
    whole = hot() | {counter: readings(lambda i: float(i % 100))}
    series = {key: points[:80] + points[120:] for key, points in whole.items()}
    found, _ = asked(Remembering(series, warnings=["store-3 is away"]))
    notes = found.nodes[0].notes
    assert "the server warns: store-3 is away" in notes
    assert "no samples from 2023-11-14 22:33:20Z to 2023-11-14 22:43:35Z" in notes
    # Of two resets one lies in the gap, which shows it all the same.
    assert "counters began anew 2 times: rates go on across it" in notes


def test_native_histograms_are_judged_as_classic_ones():
    name, pairs = "vllm:e2e_request_latency_seconds", labels(model_name="m", instance="n1:8000")

    def histogram(i):
        return {
            "count": str(10 * i),
            "sum": str(5.0 * i),
            "buckets": [[0, "0.4", "0.6", str(10 * i)]],
        }

    natives = {(name, pairs): readings(histogram)}
    busy = {("vllm:num_requests_running", pairs): readings(lambda _: 4.0)}
    found, _ = asked(Remembering(busy, natives))
    assert found.nodes[0].samples > 240 * 50


def test_filters_by_node_job_and_namespace():
    def of(n, job):
        at = {
            "instance": f"n{n}:9440",
            "job": "gpudiag",
            "exported_job": job,
            "namespace": f"ns{n}",
        }
        steps = ("gpudiag_train_steps_total", labels(rank="0", **at))
        return {steps: readings(float)}

    both = Remembering(of(1, "llama") | of(2, "qwen"))
    for chosen, node in (
        (Chosen(node="n2"), "n2"),
        (Chosen(job="llama"), "n1"),
        (Chosen(namespace="ns2"), "n2"),
    ):
        found, _ = asked(both, chosen=chosen)
        assert [one.node for one in found.nodes] == [node]


def test_a_server_that_breaks_midway_leaves_what_was_known_until_then():
    def breaks(asked):
        query, at = (asked.parameters.get(name, [""])[0] for name in ("query", "time"))
        late = query.endswith("[900000ms]") and float(at) > START + 3000.0
        return failure(503, "no more") if late else None

    found, _ = asked(Remembering(hot(), most=200, spoil=breaks))
    assert symptoms(found) == [("n1", "thermal-throttle")]
    assert "503: no more" in found.nodes[0].failed
    assert START + 1800.0 < found.nodes[0].until < START + 3001.0


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"<html>"),
        Reply(b'{"status":"success","data":[[[['),
        Reply(b"", 302, {"Location": "http://evil.example/"}),
        failure(422, "bad query"),
        failure(503, "overloaded"),
        Reply(itertools.repeat(b'{"status":"success","data":["a' * 2000)),
    ],
    ids=["page", "broken", "redirect", "422", "503", "huge"],
)
def test_a_hostile_server_costs_little_and_ends_in_one_line(reply):
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ServerError) as said:
        asked(Remembering(spoil=lambda _: reply))
    assert "\n" not in str(said.value)
    assert time.monotonic() - began < 60.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024


def test_an_interrupt_gives_what_is_known():
    calls = iter(range(100))

    def interrupted(node, part):
        if part > 0.7 and next(calls) >= 0:
            raise KeyboardInterrupt

    with double(Remembering(hot(), most=60)) as server:
        found = diagnose(Question(Access(server.url), START, END, patience=QUICK), interrupted)
    assert found.nodes[0].failed == "interrupted"
    assert symptoms(found) == [("n1", "thermal-throttle")]
