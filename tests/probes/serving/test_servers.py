"""The probe against servers that answer well, badly, slowly and not at all."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpudiag.probes.errors import GpudiagError, Unavailable
from gpudiag.probes.serving.canary_fetch import Exchange
from gpudiag.probes.serving.discovery import discover, ports
from gpudiag.probes.serving.scrape import Server
from gpudiag.probes.serving.servers import Servers
from tests.modelserver import model_server, send

PAGES = Path(__file__).parent / "pages"
VLLM = (PAGES / "vllm-0.33.txt").read_text()


def read(*servers):
    """Values by name and engine's status, and the trouble told at the end."""
    probe, told, trouble = Servers(servers), {}, ""
    try:
        for sample in probe.read():
            told[sample.metric, dict(sample.labels)["server"]] = sample.value
    except GpudiagError as error:
        trouble = str(error)
    probe.close()
    return told, trouble


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
    assert told["gpudiag_serving_kv_tokens_capacity", "s"] == 16000.0
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
        ("node_load1 1", "no name of a known server"),
    ],
)
def test_what_is_no_page_is_told_in_a_line(answer, why):
    with model_server(metrics=answer) as at:
        assert why in read(server(at))[1]


def test_a_page_that_never_ends_is_given_up():
    def slowly(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(60):
            handler.wfile.write(b"vllm:num_requests_running 1\n")
            time.sleep(0.2)

    began = time.monotonic()
    with model_server(metrics=slowly) as at:
        assert "in time" in read(server(at))[1]
    assert time.monotonic() - began < 8.0


def test_a_key_is_shown_to_the_server_alone():
    with model_server(metrics=VLLM, health="") as at:
        read(server(at, headers={"Authorization": "Bearer hush"}))
        assert at.seen[0].headers["Authorization"] == "Bearer hush"


def test_without_servers_it_is_not_here():
    with pytest.raises(Unavailable, match=r"probes\.serving\.servers"):
        list(Servers([]).read())


def test_listening_ports_are_told(tmp_path):
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(
        "  sl  local_address rem_address   st\n"
        "   0: 0100007F:1F90 00000000:0000 0A\n"
        "   1: 0100007F:0050 0100007F:1234 01\n"
    )
    assert ports(tmp_path) == [8080]


def test_a_server_of_the_pod_is_found_by_its_page(tmp_path):
    with model_server(metrics=VLLM) as at:
        port = int(at.url.rpartition(":")[2])
        (tmp_path / "net").mkdir()
        (tmp_path / "net" / "tcp").write_text(f"head\n 0: 0100007F:{port:04X} 00000000:0000 0A\n")
        (found,) = discover(tmp_path, Exchange)
    assert (found.name, found.engine) == (f"vllm-{port}", "vllm")


def test_what_was_found_is_looked_at_beside_what_is_named():
    with model_server(metrics=VLLM, health="") as at:
        probe = Servers([], lambda: [server(at, "found")])
        assert {dict(s.labels)["server"] for s in probe.read()} == {"found"}
        probe.close()
