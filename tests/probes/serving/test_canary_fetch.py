import threading
import time

import pytest

from gpudiag.probes.serving.canary_fetch import MAX_BYTES, Exchange, Unanswered
from tests.modelserver import cut, dripping, hanging, huge, model_server, send
from tests.running import free_port


def fetched(server, path="/a", seconds=60.0, headers=None, body=b"{}"):
    exchange = Exchange(server.url, time.monotonic() + seconds)
    try:
        return b"".join(exchange.ask("POST", path, headers or {}, body))
    finally:
        exchange.close()


def refused(server, **how):
    with pytest.raises(Unanswered) as caught:
        fetched(server, **how)
    return caught.value


@pytest.fixture
def over():
    event = threading.Event()
    yield event
    event.set()


def test_an_answer_comes_whole():
    with model_server(a={"x": 1}) as server:
        assert fetched(server) == b'{"x": 1}'
        assert server.seen[0].headers["Accept-Encoding"] == "identity"


def test_an_address_may_have_a_path():
    with model_server(gate__v1__models={"x": 1}) as server:
        server.url += "/gate/"
        assert fetched(server, path="/v1/models")


@pytest.mark.parametrize(
    ("status", "answer", "outcome"),
    [
        (400, "bad", "rejected"),
        (404, "no such model", "rejected"),
        (401, "who are you", "misconfigured"),
        (403, "no", "misconfigured"),
        (424, "Request failed during generation", "server_error"),
        (429, "Model is overloaded", "busy"),
        (500, "CUDA error", "server_error"),
        (503, "Exceeds maximum queue size", "busy"),
        (503, "engine is dead", "server_error"),
    ],
)
def test_each_refusal_has_its_meaning(status, answer, outcome):
    with model_server(a=answer) as server:
        server.status = status
        error = refused(server)
    assert error.outcome == outcome
    assert answer in str(error)


def test_a_redirect_is_not_followed():
    with model_server(secret={"x": 1}, a="") as server:
        server.status, server.headers = 307, {"Location": "/secret"}
        error = refused(server)
        assert [seen.path for seen in server.seen] == ["/a"]
    assert error.outcome == "misconfigured"
    assert "/secret, not followed" in str(error)


def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with model_server(a={"x": 1}) as server:
        assert fetched(server)


@pytest.mark.parametrize(("write", "outcome"), [(cut, "truncated"), (huge, "garbage")])
def test_bodies_that_do_not_end_well(write, outcome):
    with model_server(a=write) as server:
        assert refused(server).outcome == outcome


def test_an_error_of_any_length_is_quoted_shortly():
    with model_server(a="y" * MAX_BYTES) as server:
        server.status = 500
        assert len(str(refused(server))) < 300


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"])
def test_time_is_limited_as_a_whole_not_by_the_byte(over, head):
    write = dripping(over, head) if head else hanging(over)
    with model_server(a=write) as server:
        assert refused(server, seconds=0.3).outcome == "timeout"


def test_a_refused_connection():
    exchange = Exchange(f"http://127.0.0.1:{free_port()}", time.monotonic() + 60)
    with pytest.raises(Unanswered) as caught:
        list(exchange.ask("GET", "/", {}))
    assert caught.value.outcome == "refused"


def test_what_speaks_no_http():
    def write(handler):
        handler.wfile.write(b"\x00\x01garbage\r\n\r\n")
        handler.close_connection = True

    with model_server(a=write) as server:
        assert refused(server).outcome == "truncated"


def test_a_second_request_follows_a_refused_one():
    def reply(handler):
        send(handler, 404, "y" * 9000)

    with model_server(a=reply, b={"x": 1}) as server:
        exchange = Exchange(server.url, time.monotonic() + 60)
        with pytest.raises(Unanswered):
            list(exchange.ask("GET", "/a", {}))
        assert b"".join(exchange.ask("GET", "/b", {})) == b'{"x": 1}'
        exchange.close()


def test_another_thread_can_end_it(over):
    with model_server(a=hanging(over)) as server:
        exchange = Exchange(server.url, time.monotonic() + 6000)
        threading.Timer(0.2, exchange.abort).start()
        with pytest.raises(Unanswered):
            list(exchange.ask("GET", "/a", {}))
        exchange.close()
