"""Events in OTLP's own messages. Importing this brings in OpenTelemetry; only a pusher does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2

from gpudiag.agent.exporters.otlp_data import nanos, resource
from gpudiag.agent.exporters.otlp_events import ERROR, INFO, WARN, Happening, Value
from gpudiag.agent.exporters.view import AgentInfo

# The messages are made when the module is loaded: no type checker sees their names.
_logs: Any = logs_pb2
_common: Any = common_pb2
_service: Any = logs_service_pb2
_resources: Any = resource_pb2

_TEXTS = {INFO: "INFO", WARN: "WARN", ERROR: "ERROR"}


def encoded(
    events: Sequence[Happening], info: AgentInfo, environ: Mapping[str, str], now: float
) -> bytes:
    """One export request with all `events`, observed at `now`, of this agent."""
    of = resource(info, environ)
    who = _resources.Resource(attributes=_pairs(dict(of.attributes)))
    records = [_record(event, now) for event in events]
    scope = _common.InstrumentationScope(name="gpudiag", version=info.version)
    scoped = _logs.ScopeLogs(scope=scope, log_records=records)
    whole = _service.ExportLogsServiceRequest(
        resource_logs=[_logs.ResourceLogs(resource=who, scope_logs=[scoped])]
    )
    return bytes(whole.SerializeToString())


def _record(event: Happening, now: float) -> Any:
    return _logs.LogRecord(
        event_name=event.name,
        time_unix_nano=nanos(event.time),
        observed_time_unix_nano=nanos(now),
        severity_number=event.severity,
        severity_text=_TEXTS[event.severity],
        body=_common.AnyValue(string_value=event.body),
        attributes=_pairs(event.attributes),
    )


def _pairs(attributes: Mapping[str, Any]) -> list[Any]:
    return [
        _common.KeyValue(key=key, value=_value(value))
        for key, value in attributes.items()
        if isinstance(value, str | int | float)
    ]


def _value(value: Value) -> Any:
    if isinstance(value, str):
        return _common.AnyValue(string_value=value)
    if isinstance(value, int):
        return _common.AnyValue(int_value=value)
    return _common.AnyValue(double_value=value)
