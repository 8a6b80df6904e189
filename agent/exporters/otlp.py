"""Pushes the metrics to an OpenTelemetry collector over OTLP/HTTP, where one is configured."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpudiag.agent.exporters.otlp_sending import Pusher
from gpudiag.agent.exporters.view import Snapshot, Snapshots

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    from gpudiag.agent.exporters.otlp_data import Converter

_LIBRARY = "opentelemetry.exporter"


class OtlpPusher(Pusher):
    """Sends the whole snapshot every `interval` seconds; the SDK it needs is some 15 MiB.

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
        super().__init__(snapshots, "otlp", "metrics", endpoint, interval)
        self._endpoint = endpoint
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._environ = environ
        self._ways: tuple[OTLPMetricExporter, Converter, _LastWords] | None = None

    def _begin(self) -> tuple[OTLPMetricExporter, Converter, _LastWords]:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        from gpudiag.agent.exporters.otlp_data import Converter, resource

        said = _LastWords()
        exporter = OTLPMetricExporter(
            endpoint=self._endpoint, headers=self._headers, timeout=self._timeout
        )
        return exporter, Converter(resource(self._snapshots.get().info, self._environ)), said

    def _round(self, snapshot: Snapshot) -> str:
        self._ways = self._ways or self._begin()
        exporter, converter, said = self._ways
        said.text = ""
        result = exporter.export(converter.convert(snapshot))
        return "" if result.name == "SUCCESS" else said.text or "the export failed"


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
