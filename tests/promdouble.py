"""A server in the place of a Prometheus, that answers whatever a test says, however badly."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """One question as it arrived."""

    method: str
    path: str
    parameters: dict[str, list[str]]
    headers: dict[str, str]


@dataclass(frozen=True)
class Reply:
    """`body` may be pieces that are sent as they come, for as long as anyone listens."""

    body: bytes | Iterator[bytes] = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


Answerer = Callable[[Asked], Reply]


def success(data: Any, **beside: Any) -> Reply:
    return Reply(json.dumps({"status": "success", "data": data, **beside}).encode())


def matrix(*rows: dict[str, Any], **beside: Any) -> Reply:
    return success({"resultType": "matrix", "result": list(rows)}, **beside)


def failure(status: int, error: str, kind: str = "execution") -> Reply:
    body = {"status": "error", "errorType": kind, "error": error}
    return Reply(json.dumps(body).encode(), status)


@dataclass
class Double:
    """Its address, and what it was asked."""

    port: int
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def double(answer: Answerer) -> Iterator[Double]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length", 0))
            query = self.rfile.read(length).decode() if length else parts.query
            asked = Asked(self.command, parts.path, parse_qs(query), dict(self.headers.items()))
            known.asked.append(asked)
            self._reply(answer(asked))

        do_POST = do_GET  # noqa: N815

        def _reply(self, reply: Reply) -> None:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if isinstance(reply.body, bytes):
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            try:
                for piece in [reply.body] if isinstance(reply.body, bytes) else reply.body:
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:
                return

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    known = Double(server.server_address[1])
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    try:
        yield known
    finally:
        server.shutdown()
        server.server_close()
        serving.join(5)
