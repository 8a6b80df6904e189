"""Pushes the metrics to an OpenTelemetry collector over OTLP/HTTP, where one is configured."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpudiag.agent.exporters.otlp_sending import Standing, Ticker
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.agent.scheduler import ProbeStatus

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    from gpudiag.agent.exporters.otlp_data import Converter

_LIBRARY = "opentelemetry.exporter"


class OtlpPusher:
    """A thread that sends a snapshot every `interval` seconds; a dead collector only counts.

    `endpoint` is the full URL (`http://collector:4318/v1/metrics`), `headers` go with each
    request, `timeout` bounds one export with its retries, in seconds.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        endpoint: str,
        *,
        interval: float = 10.0,
        timeout: float = 5.0,
        headers: Mapping[str, str] | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._snapshots = snapshots
        self._endpoint = endpoint
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._environ = environ
        self._standing = Standing("otlp", "metrics", endpoint)
        self._ticker = Ticker("otlp", interval, self._push)
        self._ways: tuple[OTLPMetricExporter, Converter, _LastWords] | None = None

    @property
    def sent(self) -> int:
        """How many exports the collector took."""
        return self._standing.sent

    @property
    def failed(self) -> int:
        """How many it did not take."""
        return self._standing.failed

    def start(self) -> None:
        """Begin to push; the SDK is imported in the thread, some 15 MiB."""
        self._ticker.thread.start()

    def stop(self) -> None:
        """End soon; an export under way is abandoned with the process."""
        self._ticker.stop()

    def status(self) -> ProbeStatus:
        """How pushing goes, in the shape of a probe's state."""
        return self._standing.status

    def _begin(self) -> tuple[OTLPMetricExporter, Converter, _LastWords]:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        from gpudiag.agent.exporters.otlp_data import Converter, resource

        said = _LastWords()
        exporter = OTLPMetricExporter(
            endpoint=self._endpoint, headers=self._headers, timeout=self._timeout
        )
        return exporter, Converter(resource(self._snapshots.get().info, self._environ)), said

    def _push(self) -> None:
        began, now = time.monotonic(), 0.0
        try:
            self._ways = self._ways or self._begin()
            exporter, converter, said = self._ways
            snapshot = self._snapshots.get()
            said.text, now = "", snapshot.now
            result = exporter.export(converter.convert(snapshot))
            error = "" if result.name == "SUCCESS" else said.text or "the export failed"
        except Exception as unforeseen:  # the collector's trouble must never be the agent's
            error = f"{type(unforeseen).__name__}: {unforeseen}"
        self._standing.note(error, now, time.monotonic() - began)


class _LastWords(logging.Handler):
    """Keeps the library's last complaint instead of printing each: it would fill the log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""
        library = logging.getLogger(_LIBRARY)
        library.handlers = [self]
        library.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.text = record.getMessage()[:300]
