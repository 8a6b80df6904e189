"""What a Prometheus answers, decoded: series of samples, native histograms, what it warned of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from gpudiag.agent.recording.timeline import Floats
from gpudiag.probes import Labels

NAME = "__name__"


class Native(msgspec.Struct, frozen=True):
    """A native histogram at one moment: buckets are (rule, low, high, count), as it is sent."""

    count: str
    sum: str
    buckets: tuple[tuple[int, str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """One series: `labels` without its name; times in epoch seconds and values, both (n,)."""

    metric: str
    labels: Labels
    times: Floats
    values: Floats
    natives: tuple[tuple[float, Native], ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """Series in the server's order, and what it warned of (a part that did not answer)."""

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()


Point = tuple[float, str]


class _Row(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[Point] = []
    value: Point | None = None
    histograms: list[tuple[float, Native]] = []
    histogram: tuple[float, Native] | None = None


class _Data(msgspec.Struct):
    resultType: str = ""  # noqa: N815
    result: msgspec.Raw = msgspec.Raw(b"[]")


class Envelope(msgspec.Struct):
    """What stands around every answer; `isPartial` is VictoriaMetrics'."""

    status: str = ""
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    errorType: str = ""  # noqa: N815
    warnings: list[str] | None = None
    isPartial: bool = False  # noqa: N815

    def warned(self) -> tuple[str, ...]:
        """Its warnings, one line each, and one where it says that it knows only a part."""
        partial = ["the server says that its answer is partial"] if self.isPartial else []
        return tuple(one_line(text) for text in [*(self.warnings or []), *partial])


_ENVELOPE = msgspec.json.Decoder(Envelope)
_DATA = msgspec.json.Decoder(_Data)
_ROWS = msgspec.json.Decoder(list[_Row])
_POINT = msgspec.json.Decoder(Point)


def envelope(body: bytes) -> Envelope:
    """The outer part; raises `ValueError` where it is none."""
    found: Envelope = _decoded(_ENVELOPE, body)
    return found


def series(data: msgspec.Raw) -> tuple[Series, ...]:
    """The series of a query's data; raises `ValueError` where it is no such thing."""
    outer = _decoded(_DATA, data)
    if outer.resultType == "scalar":
        return (_series(_Row(value=_decoded(_POINT, outer.result))),)
    if outer.resultType not in ("vector", "matrix"):
        raise ValueError(f"a result of type {outer.resultType[:40]!r}")
    return tuple(_series(row) for row in _decoded(_ROWS, outer.result))


def _series(row: _Row) -> Series:
    points = row.values or ([row.value] if row.value else [])
    natives = row.histograms or ([row.histogram] if row.histogram else [])
    metric = row.metric.pop(NAME, "")
    return Series(
        metric,
        tuple(sorted(row.metric.items())),
        np.array([at for at, _ in points], float),
        np.array([value for _, value in points], float),
        tuple(natives),
    )


def listed(data: msgspec.Raw, of: Any) -> Any:
    """The data as the type `of`; raises `ValueError` where it is another."""
    return _decoded(msgspec.json.Decoder(of), data)


def _decoded(decoder: msgspec.json.Decoder[Any], raw: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(one_line(str(error))) from error


def one_line(text: str, most: int = 300) -> str:
    """What a server said, as one printable line."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in line[:most])


def merged(warnings: Iterable[str]) -> tuple[str, ...]:
    """Each warning once, in the order of their first time."""
    return tuple(dict.fromkeys(warnings))
