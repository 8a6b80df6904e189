"""What an OpenTelemetry collector is to whoever sends: protobuf over HTTP, and an answer."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

REQUESTS: dict[str, Any] = {
    "/v1/metrics": getattr(metrics_service_pb2, "ExportMetricsServiceRequest"),  # noqa: B009
    "/v1/logs": getattr(logs_service_pb2, "ExportLogsServiceRequest"),  # noqa: B009
}


class Collector(HTTPServer):
    """Keeps what it is sent, by path, with the last headers; answers with `status`."""

    status = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Intake)
        self.received: list[Any] = []
        self.logs: list[Any] = []
        self.headers: dict[str, str] = {}
        self.url = f"http://127.0.0.1:{self.server_port}/v1/metrics"
        self.logs_url = f"http://127.0.0.1:{self.server_port}/v1/logs"

    def records(self) -> list[Any]:
        """Every log record it took, in order."""
        return [
            record
            for request in self.logs
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]


class Intake(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        assert self.headers["Content-Type"] == "application/x-protobuf"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.headers = dict(self.headers)
        taken = self.server.received if self.path == "/v1/metrics" else self.server.logs
        if self.path == "/v1/metrics" or self.server.status == 200:
            taken.append(REQUESTS[self.path].FromString(body))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/v1/logs?again")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def collecting() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def attributes(holder: Any) -> dict[str, Any]:
    """A resource's, point's or record's, each in its own kind."""
    return {
        pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in holder.attributes
    }
