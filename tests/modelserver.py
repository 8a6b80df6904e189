"""A local HTTP server that imitates serving APIs, well or badly, as a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DAYS = "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday"


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class ModelServer:
    """`answers` maps a path to JSON, to text, or to a function that writes with the handler."""

    answers: dict[str, Any]
    url: str = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)

    def reply(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        raw = handler.rfile.read(length)
        body = json.loads(raw) if raw else None
        path = handler.path
        self.seen.append(Seen(handler.command, path, dict(handler.headers), body))
        answer = self.answers.get(path)
        if callable(answer):
            answer(handler)
        elif answer is None:
            send(handler, 404, {"error": f"no {path}"})
        else:
            send(handler, self.status, answer, self.headers)


def send(handler, status, answer, headers=None):
    raw = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(raw)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(raw)


def chat(text: str, model: str = "llama") -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"model": model, "choices": [{"message": message, "finish_reason": "stop"}]}


def streaming(texts: list[str], pause: float = 0.0, end: str = "data: [DONE]\n\n"):
    """Server-sent events of a chat, chunked as real servers send them."""

    def write(handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for text in texts:
            piece = json.dumps({"model": "llama", "choices": [{"delta": {"content": text}}]})
            _chunk(handler, f"data: {piece}\n\n")
            time.sleep(pause)
        _chunk(handler, end)
        handler.wfile.write(b"0\r\n\r\n")

    return write


def _chunk(handler, text):
    raw = text.encode()
    if raw:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))


def hanging(until: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    """Takes the request and says nothing."""

    def write(handler):
        until.wait()

    return write


def dripping(until: threading.Event, head: bytes = b"HTTP/1.1 200 OK\r\nX: ") -> Any:
    """A byte now and then, for ever: each of them resets a limit per read."""

    def write(handler):
        handler.wfile.write(head)
        while not until.wait(0.02):
            handler.wfile.write(b"x")

    return write


def cut(handler):
    """Promises more than it sends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.close_connection = True


def huge(handler):
    """A body without end."""
    handler.send_response(200)
    handler.end_headers()
    for _ in range(400):
        handler.wfile.write(b"x" * 65536)
    handler.close_connection = True


@contextmanager
def model_server(**answers: Any):
    """A `ModelServer` at work; `v1__models` names the path `/v1/models`."""
    server = ModelServer({"/" + name.replace("__", "/"): value for name, value in answers.items()})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self):
            # Who asks may hang up at any moment.
            with suppress(OSError):
                super().handle()

        def do_POST(self):
            server.reply(self)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_):
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    server.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()
