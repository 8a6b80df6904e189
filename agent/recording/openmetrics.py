"""OpenMetrics text with timestamps, both ways; read at about two million lines a second."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from typing import BinaryIO

import numpy as np

from gpudiag.agent.recording import notation
from gpudiag.agent.recording.timeline import Columns, SeriesKey
from gpudiag.probes import Labels, catalog
from gpudiag.probes.errors import UsageError

_BLOCK = 4 * 1024**2
_END = "# EOF"
_HISTOGRAM_ENDINGS = ("_bucket", "_count", "_sum")

Append = Callable[[float], None]


def read(stream: BinaryIO, name: str) -> list[Columns]:
    """Every series of the text with its times and values; `name` stands for it in complaints.

    Raises `UsageError` with the line for whatever is no `series value timestamp`, and for a text
    without its end mark: it was cut off.
    """
    reader = _Reader(name)
    rest = b""
    while block := stream.read(_BLOCK):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            reader.take(whole)
    if rest:
        reader.take(rest)
    return reader.columns()


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._line = 0
        self._ended = False
        self._columns: dict[SeriesKey, tuple[array[float], array[float]]] = {}
        self._appends: dict[str, tuple[Append, Append]] = {}

    def take(self, block: bytes) -> None:
        try:
            lines = block.decode().split("\n")
        except UnicodeDecodeError as error:
            self._line += block[: error.start].count(b"\n") + 1
            raise self._error("not UTF-8 text") from error
        appends, base = self._appends, self._line
        for number, line in enumerate(lines, start=base + 1):
            # The text before value and time is the same in every line of a series: known already.
            try:
                head, value_text, time_text = line.rsplit(" ", 2)
                add_time, add_value = appends[head]
                time, value = float(time_text), float(value_text)
            except (KeyError, ValueError):
                self._line = number
                self._other(line)
                continue
            add_time(time)
            add_value(value)
        self._line = base + len(lines)

    def _other(self, line: str) -> None:
        """The first line of a series, a comment, a line with an exemplar, or garbage."""
        if self._ended:
            raise self._error(f"text after {_END}")
        if line == _END:
            self._ended = True
            # From here on no series is known, so that any further line comes by here.
            self._appends.clear()
            return
        if line.startswith(("# HELP ", "# TYPE ", "# UNIT ")):
            return
        try:
            head, key, value, time = _parted(line)
        except (ValueError, UsageError):
            try:
                head, key, value, time = _parted(line.rpartition(" # {")[0])
            except (ValueError, UsageError) as error:
                raise self._error(f"{line[:120]!r} is no `series value timestamp`") from error
        times, values = self._columns.setdefault(key, (array("d"), array("d")))
        self._appends[head] = (times.append, values.append)
        times.append(time)
        values.append(value)

    def columns(self) -> list[Columns]:
        if not self._ended:
            raise self._error(f"ends without {_END}: it was cut off")
        found = [
            (key, np.frombuffer(times), np.frombuffer(values))
            for key, (times, values) in self._columns.items()
        ]
        for (metric, _), times, _ in found:
            if not np.isfinite(times).all():
                raise UsageError(f"{self._name}: {metric} has a timestamp that is no time")
        return found

    def _error(self, message: str) -> UsageError:
        return UsageError(f"{self._name}:{self._line}: {message}")


def _parted(line: str) -> tuple[str, SeriesKey, float, float]:
    head, value, time = line.rsplit(" ", 2)
    return head, notation.series(head), float(value), float(time)


def family(metric: str) -> tuple[str, str]:
    """The family a metric's samples stand under, and its type there.

    What is not in the catalogue is `unknown`, or a counter if it is named like one.
    """
    known = catalog.metrics().get(metric)
    if metric.endswith("_total"):
        return metric.removesuffix("_total"), "counter"
    if known:
        return metric, "gauge" if known.kind == "info" else known.kind
    for ending in _HISTOGRAM_ENDINGS:
        base = catalog.metrics().get(metric.removesuffix(ending))
        if metric.endswith(ending) and base and base.kind == "histogram":
            return base.name, "histogram"
    return metric, "unknown"


def header(name: str, kind: str) -> str:
    """The lines that stand before a family's samples."""
    known = catalog.metrics().get(f"{name}_total" if kind == "counter" else name)
    lines = [f"# TYPE {name} {kind}"]
    if known and known.unit:
        lines.append(f"# UNIT {name} {known.unit}")
    if known:
        lines.append(f"# HELP {name} {_escaped(known.help)}")
    return "".join(f"{line}\n" for line in lines)


def series(metric: str, labels: Labels) -> str:
    """A series as it stands before value and timestamp."""
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{metric}{{{pairs}}}" if pairs else metric


def lines(head: str, times: Iterable[float], values: Iterable[float]) -> str:
    """One line for each sample of a series; times in epoch seconds, to the millisecond."""
    return "".join(
        f"{head} {value!r} {time!r}\n" for time, value in zip(times, values, strict=True)
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def bucket_bound(labels: Labels) -> float:
    """The upper bound of a histogram's bucket; infinite for its sum and count."""
    bound = dict(labels).get("le", "")
    try:
        return float(bound)
    except ValueError:
        return math.inf
