"""Pushes the metrics to an OpenTelemetry collector over OTLP/HTTP, where one is configured."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpudiag.agent.exporters.view import Snapshots
from gpudiag.agent.scheduler import ProbeStatus

if TYPE_CHECKING:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    from gpudiag.agent.exporters.otlp_data import Converter

log = logging.getLogger(__name__)

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
        self.sent = 0
        self.failed = 0
        self._snapshots = snapshots
        self._endpoint = endpoint
        self._interval = interval
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._environ = environ
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._status = ProbeStatus("otlp", ok=True, detail="nothing sent yet")

    def start(self) -> None:
        """Begin to push; the SDK is imported in the thread, some 15 MiB."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; an export under way is abandoned with the process."""
        self._stop.set()

    def status(self) -> ProbeStatus:
        """How pushing goes, in the shape of a probe's state."""
        return self._status

    def _run(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        from gpudiag.agent.exporters.otlp_data import Converter, resource

        said = _LastWords()
        exporter = OTLPMetricExporter(
            endpoint=self._endpoint, headers=self._headers, timeout=self._timeout
        )
        converter = Converter(resource(self._snapshots.get().info, self._environ))
        while not self._stop.wait(self._interval):
            self._push(exporter, converter, said)

    def _push(self, exporter: OTLPMetricExporter, converter: Converter, said: _LastWords) -> None:
        began = time.monotonic()
        snapshot = self._snapshots.get()
        said.text = ""
        try:
            result = exporter.export(converter.convert(snapshot))
            error = "" if result.name == "SUCCESS" else said.text or "the export failed"
        except Exception as unforeseen:  # the collector's trouble must never be the agent's
            error = f"{type(unforeseen).__name__}: {unforeseen}"
        self._note(error, snapshot.now, time.monotonic() - began)

    def _note(self, error: str, now: float, took: float) -> None:
        was = self._status
        if not error:
            self.sent += 1
            if not was.ok:
                log.info("OTLP: %s takes metrics again", self._endpoint)
            self._status = ProbeStatus("otlp", True, "", now, took)
            return
        self.failed += 1
        detail = f"{self._endpoint} does not take metrics ({self.failed} exports lost): {error}"
        if was.ok:
            log.warning("OTLP: %s; further failures are only counted", detail)
        self._status = ProbeStatus("otlp", False, detail, was.last_success, took)


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
