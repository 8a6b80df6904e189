"""The probe against servers that answer well, badly, slowly and not at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpudiag.probes import Sample
from gpudiag.probes.errors import Partly, Unavailable
from gpudiag.probes.serving.scrape import Server
from gpudiag.probes.serving.servers import Servers
from tests.modelserver import model_server, send

PAGES = Path(__file__).parent / "pages"
VLLM = (PAGES / "vllm-0.33.txt").read_text()


def read(*servers):
    """Values by name and server, and the trouble told at the end."""
    probe = Servers(servers)
    told, trouble, _ = once(probe)
    probe.close()
    return told, trouble


def once(probe):
    told, trouble, events = {}, "", []
    try:
        for record in probe.read():
            if isinstance(record, Sample):
                told[record.metric, dict(record.labels)["server"]] = record.value
            else:
                events.append(record)
    except Partly as error:
        trouble = str(error)
    return told, trouble, events


def server(at, name="s", **more):
    return Server(name, at.url, **more)


def test_a_server_is_up_ready_and_tells_its_figures():
    with model_server(metrics=VLLM, health="") as at:
        told, trouble = read(server(at))
    assert trouble == ""
    assert told["gpudiag_serving_up", "s"] == 1.0
    assert told["gpudiag_serving_ready", "s"] == 1.0
    assert told["gpudiag_serving_engine_up", "s"] == 1.0
    assert told["vllm:num_requests_running", "s"] == 12.0
    assert told["vllm:cache_config_info", "s"] == 1.0
    assert ("python_info", "s") not in told


def test_an_engine_that_has_died_behind_its_front_end():
    with model_server(metrics=VLLM, health=lambda h: send(h, 503, "EngineDeadError")) as at:
        told, _ = read(server(at))
    assert told["gpudiag_serving_ready", "s"] == 0.0
    assert told["gpudiag_serving_engine_up", "s"] == 0.0


def test_a_front_end_without_workers_answers_200_and_is_not_ready():
    page = (PAGES / "dynamo.txt").read_text()
    for word, ready in (("healthy", 1.0), ("unhealthy", 0.0)):
        with model_server(metrics=page, health={"status": word}) as at:
            assert read(server(at))[0]["gpudiag_serving_ready", "s"] == ready


def test_a_full_queue_is_no_illness():
    page = (PAGES / "tgi-3.txt").read_text()
    with model_server(metrics=page, health=lambda h: send(h, 429, "overloaded")) as at:
        told, _ = read(server(at))
    assert told["gpudiag_serving_up", "s"] == 1.0
    assert ("gpudiag_serving_ready", "s") not in told


def test_one_that_is_down_costs_the_others_nothing():
    with model_server(metrics=VLLM, health="") as at:
        told, trouble = read(Server("gone", "http://127.0.0.1:1"), server(at))
    assert told["gpudiag_serving_up", "gone"] == 0.0
    assert told["gpudiag_serving_up", "s"] == 1.0
    assert trouble.startswith("gone: ")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda h: send(h, 302, "", {"Location": "http://elsewhere/"}), "not followed"),
        (lambda h: send(h, 500, "broken"), "HTTP 500"),
        (lambda h: send(h, 200, "x" * (9 * 1024**2)), "more than 8388608 bytes"),
        (lambda h: send(h, 200, "x", {"Content-Encoding": "gzip"}), "compressed (gzip)"),
        ("node_load1 1", "no name of a known server"),
        ("", "no name of a known server"),
    ],
)
def test_what_is_no_page_is_told_in_a_line(answer, why):
    with model_server(metrics=answer) as at:
        assert why in read(server(at))[1]


def test_a_page_that_never_ends_is_given_up():
    def slowly(handler):
        handler.send_response(200)
        handler.end_headers()
        while True:
            handler.wfile.write(b"vllm:num_requests_running 1\n")
            time.sleep(0.2)

    with model_server(metrics=slowly) as at:
        assert "in time" in read(server(at))[1]


def test_a_key_is_shown_to_the_server_alone():
    with model_server(metrics=VLLM, health="") as at:
        read(server(at, headers={"Authorization": "Bearer hush"}))
        assert at.seen[0].headers["Authorization"] == "Bearer hush"


def test_without_servers_it_is_not_here():
    with pytest.raises(Unavailable, match=r"probes\.serving\.servers"):
        list(Servers([]).read())


def test_what_was_found_is_looked_at_beside_what_is_named():
    with model_server(metrics=VLLM, health="") as at:
        probe = Servers([], lambda: [server(at, "found")])
        assert {server for _, server in once(probe)[0]} == {"found"}
        probe.close()


def test_a_server_that_was_found_and_is_gone_is_down():
    clock = [0.0]
    gone = Server("found", "http://127.0.0.1:1")
    found = [gone]
    probe = Servers([], lambda: found, monotonic=lambda: clock[0])
    once(probe)
    found.clear()
    clock[0] = 600.0
    assert once(probe)[0]["gpudiag_serving_up", "found"] == 0.0
    clock[0] = 2000.0
    with pytest.raises(Unavailable):
        list(probe.read())


def test_an_answer_that_is_an_error_is_an_answer():
    with model_server(metrics=lambda h: send(h, 500, "broken")) as at:
        told, trouble = read(server(at))
    assert told["gpudiag_serving_up", "s"] == 1.0
    assert trouble.startswith("s: HTTP 500")


def test_an_endpoint_that_is_not_there_says_nothing():
    with model_server(metrics=VLLM) as at:
        told, _ = read(server(at))
    assert ("gpudiag_serving_ready", "s") not in told
    assert ("gpudiag_serving_engine_up", "s") not in told


def test_page_and_health_may_be_elsewhere():
    page = (PAGES / "ray-serve.txt").read_text()
    with model_server(metrics=page) as figures, model_server(health="") as at:
        told, trouble = read(server(at, page=f"{figures.url}/metrics", health="/health"))
    assert trouble == ""
    assert told["gpudiag_serving_ready", "s"] == 1.0
    assert told["ray_serve_deployment_queued_queries", "s"] == 1.0


def test_turns_are_told_once():
    health = [200]
    with model_server(metrics=VLLM, health=lambda h: send(h, health[0], "EngineDeadError")) as at:
        probe = Servers([server(at)])
        assert once(probe)[2] == []
        health[0] = 503
        (event,) = once(probe)[2]
        assert once(probe)[2] == []
        health[0] = 200
        assert len(once(probe)[2]) == 1
        probe.close()
    assert (event.source, event.type, event.fields["server"]) == ("serving", "health", "s")
    assert event.line == "s is up: /health: HTTP 503: EngineDeadError"


def test_many_that_do_not_answer_are_waited_for_once():
    def silent(handler):
        time.sleep(3.0)

    began = time.monotonic()
    with model_server(metrics=silent, health=silent) as mute, model_server(metrics=VLLM) as at:
        slow = [server(mute, f"mute-{n}") for n in range(20)]
        told, _ = read(*slow, server(at, "well"))
    assert told["gpudiag_serving_up", "well"] == 1.0
    # One after the other they would take a minute.
    assert time.monotonic() - began < 40.0


def test_a_page_that_a_cache_shows_again_and_again_is_no_news():
    clock = [0.0]
    page = "process_cpu_seconds_total 5.0\n" + VLLM
    with model_server(metrics=page, health="") as at:
        probe = Servers([server(at)], monotonic=lambda: clock[0])
        assert ("vllm:num_requests_running", "s") in once(probe)[0]
        clock[0] = 61.0
        told, trouble, _ = once(probe)
        probe.close()
    assert "a copy" in trouble
    assert told.keys() == {("gpudiag_serving_up", "s"), *READY}


READY = {("gpudiag_serving_ready", "s"), ("gpudiag_serving_engine_up", "s")}


def test_a_page_without_a_pulse_may_stand_still():
    clock = [0.0]
    with model_server(metrics=VLLM, health="") as at:
        probe = Servers([server(at)], monotonic=lambda: clock[0])
        once(probe)
        clock[0] = 600.0
        assert once(probe)[1] == ""
        probe.close()
