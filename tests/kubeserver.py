"""An API server's double: HTTPS, service-account tokens, its wire format, and its bad days."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from gpudiag.agent.kubernetes.account import Account
from gpudiag.agent.kubernetes.client import Api
from tests import certificates
from tests.kubeobjects import Objects, Rejected, chosen

TOKEN = "eyJhbGciOiJSUzI1NiJ9.first"

Fault = int | Literal["reset", "reset-after", "hang", "hang-after", "drip", "html"]
"""A status; or the connection reset or silent before the request is carried out, or after."""


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class KubeServer:
    """`folder` is the mounted service account; `faults` are used up one by one, by path's end.

    A watch ends after `watch_seconds`, and knows nothing of versions before `forgotten`.
    """

    folder: Path
    port: int = 0
    watch_seconds: float = 30.0
    forgotten: int = 0
    objects: Objects = field(default_factory=Objects)
    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    ending: threading.Event = field(default_factory=threading.Event)

    def api(self, timeout: float = 30.0) -> Api:
        return Api(Account("127.0.0.1", self.port, self.folder), timeout)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.port),
        }

    def requests(self, method: str, end: str = "") -> list[Asked]:
        return [a for a in self.asked if a.method == method and a.path.endswith(end)]

    def fault(self, path: str) -> Fault | None:
        for index, (end, fault) in enumerate(self.faults):
            if path.partition("?")[0].endswith(end):
                del self.faults[index]
                return fault
        return None

    def reply(self, handler: BaseHTTPRequestHandler) -> None:
        raw = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        path = handler.path
        self.asked.append(Asked(handler.command, path, dict(handler.headers), body))
        fault = self.fault(path)
        if isinstance(fault, str) and not fault.endswith("-after"):
            _misbehave(handler, fault, self.ending)
            return
        try:
            if isinstance(fault, int):
                raise Rejected(fault, "InternalError", "etcdserver: request timed out")
            self._admit(handler)
            if "watch=true" in path:
                self._watch(handler, path)
                return
            kind = handler.headers.get("Content-Type", "")
            with self.objects.lock:
                status, answer = self.objects.answer(handler.command, path, body, kind)
            after = None
        except Rejected as no:
            status, answer, after = no.code, no.status, no.after
        if isinstance(fault, str):
            _misbehave(handler, fault.removesuffix("-after"), self.ending)
        else:
            _send(handler, status, answer, after)

    def _watch(self, handler: BaseHTTPRequestHandler, path: str) -> None:
        query = parse_qs(urlsplit(path).query)
        since, end = int(query["resourceVersion"][0]), time.monotonic() + self.watch_seconds
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        if since < self.forgotten:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            _chunk(handler, {"type": "ERROR", "object": status})
        while since >= self.forgotten and time.monotonic() < end and not self.ending.wait(0.02):
            until, changed = self.objects.changed("events", since)
            for body in changed:
                if chosen(body, query):
                    _chunk(handler, {"type": "ADDED", "object": body})
            # A bookmark moves on whoever watches what seldom changes.
            if until > since:
                meta = {"resourceVersion": str(until)}
                _chunk(handler, {"type": "BOOKMARK", "object": {"metadata": meta}})
            since = until
        handler.wfile.write(b"0\r\n\r\n")

    def _admit(self, handler: BaseHTTPRequestHandler) -> None:
        token = (handler.headers.get("Authorization") or "").removeprefix("Bearer ")
        if token not in self.tokens:
            raise Rejected(401, "Unauthorized", "Unauthorized")
        for method, end in self.forbidden:
            if handler.command == method and handler.path.partition("?")[0].endswith(end):
                raise Rejected(403, "Forbidden", f'User "sa" cannot {method} {end}')


def _chunk(handler: BaseHTTPRequestHandler, change: dict[str, Any]) -> None:
    raw = json.dumps(change).encode() + b"\n"
    handler.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))


def _send(handler, status, answer, after=None):
    raw = json.dumps(answer).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(raw)))
    if after is not None:
        handler.send_header("Retry-After", str(after))
    handler.end_headers()
    handler.wfile.write(raw)


def _misbehave(handler, how: str, ending: threading.Event) -> None:
    handler.close_connection = True
    if how == "reset":
        # With a linger of 0 the kernel sends RST instead of an end.
        linger = struct.pack("ii", 1, 0)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        handler.connection.detach_and_close()
    elif how == "hang":
        ending.wait()
    elif how == "drip":
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n")
        while not ending.wait(0.05):
            handler.wfile.write(b" ")
    else:
        page = b"<html>a proxy's page</html>"
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(page) + page)


class _Socket(ssl.SSLSocket):
    def detach_and_close(self) -> None:
        socket.socket.close(socket.socket(fileno=self.detach()))


@contextmanager
def kube(folder: Path, namespace: str = "ml") -> Iterator[KubeServer]:
    """Serves until the block ends; `folder` becomes the mounted service account."""
    certificate, key = certificates.served_by(certificates.authority(folder / "pki"))
    mount = folder / "serviceaccount"
    mount.mkdir()
    for name, text in {"token": TOKEN, "namespace": namespace}.items():
        (mount / name).write_text(text + "\n")
    (mount / "ca.crt").write_bytes((folder / "pki/ca.crt").read_bytes())
    double = KubeServer(mount)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return lambda: double.reply(self)
            raise AttributeError(name)

        def log_message(self, *_args) -> None:
            """Quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_args) -> None:
            """A client that hangs up, or wants another authority, is what some tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.sslsocket_class = _Socket
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        double.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield double
        finally:
            double.ending.set()
            server.shutdown()
