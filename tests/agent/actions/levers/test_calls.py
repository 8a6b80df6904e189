from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpudiag.agent.actions.contract import Ending
from gpudiag.agent.actions.levers import servers
from gpudiag.agent.actions.levers.calls import Call, Calls, HttpLever
from gpudiag.agent.actions.levers.servers import Server
from tests.agent.actions.test_guard import plan


class Fake(ThreadingHTTPServer):
    """Answers each path as it is told, and remembers who asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.asked = {}, []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Fake

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        self.server.asked.append((self.command, self.path, self.rfile.read(length), self.headers))
        status, body = self.server.answers.get(self.path.partition("?")[0], (404, b""))
        if status == 0:
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def fake():
    server = Fake()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def lever(call, **more):
    return HttpLever("gateway", {"server=chat": Calls(do=call, **more)})


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        *[(200, Ending.DONE), (202, Ending.DONE), (302, Ending.REFUSED), (429, Ending.REFUSED)],
        *[(503, Ending.REFUSED), (500, Ending.FAILED), (0, Ending.FAILED)],
    ],
)
def test_what_an_answer_means(fake, status, ending):
    fake.answers["/x"] = (status, b"")
    assert lever(Call(f"{fake.url}/x")).do(plan()).ending is ending
    assert len(fake.asked) == 1


def test_nobody_there_is_refused():
    assert lever(Call("http://127.0.0.1:1/x")).do(plan()).ending is Ending.REFUSED


def test_secrets_are_not_in_what_is_told(fake):
    said = lever(Call(f"{fake.url}/x", headers={"Authorization": "Bearer hush"})).do(plan())
    assert "hush" not in said.detail
    assert fake.asked[0][3]["Authorization"] == "Bearer hush"


def test_only_configured_targets():
    made = lever(Call("http://127.0.0.1:1/x"))
    assert made.unready(plan(server="other")) == "no gateway is configured for server=other"


def vllm(fake, action):
    return HttpLever(action, servers.calls(action, {"chat": Server(fake.url, "vllm")}))


def test_vllm_is_paused_so_that_running_requests_end(fake):
    fake.answers |= {"/pause": (200, b""), "/is_paused": (200, b""), "/resume": (200, b"")}
    made = vllm(fake, "pause_server")
    assert made.reversible
    assert made.unready(plan()) == ""
    made.do(plan())
    made.undo(plan())
    assert [path for _, path, *_ in fake.asked] == ["/is_paused", "/pause?mode=wait", "/resume"]


def test_vllm_without_its_development_mode_has_no_lever(fake):
    assert vllm(fake, "pause_server").unready(plan()) == "127.0.0.1 answered 404"


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        (b'{"success": true}', Ending.DONE),
        (b'{"success": false}', Ending.REFUSED),
        (b"not json", Ending.REFUSED),
    ],
)
def test_a_cache_that_is_held_was_not_dropped(fake, body, ending):
    fake.answers["/reset_prefix_cache"] = (200, body)
    assert vllm(fake, "flush_cache").do(plan()).ending is ending


def test_sglang_gets_its_admin_key(fake):
    fake.answers["/flush_cache"] = (200, b"")
    named = {"chat": Server(fake.url, "sglang", key="k")}
    HttpLever("flush_cache", servers.calls("flush_cache", named)).do(plan())
    assert fake.asked[0][3]["Authorization"] == "Bearer k"


def test_triton_unloads_one_model(fake):
    fake.answers["/v2/repository/models/bert/unload"] = (200, b"")
    named = {"chat": Server(fake.url, "triton", model="bert")}
    made = HttpLever("unload_model", servers.calls("unload_model", named))
    assert made.do(plan()).ending is Ending.DONE


def test_tgi_has_no_lever():
    named = {"chat": Server("http://127.0.0.1:1", "tgi")}
    assert all(servers.calls(action, named) == {} for action in servers.ACTIONS)
