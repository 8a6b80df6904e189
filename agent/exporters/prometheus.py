"""Prometheus and OpenMetrics text of a snapshot, rendered once for however many scrapes.

Written out by hand with the fixed part of each line kept, because prometheus_client needs 4 to 6 ms
for 700 series and 5 MiB of memory, and this needs under 1 ms; the tests read it back with
prometheus_client's parsers. Timestamps are not written: what is not fresh is not there.
"""

from __future__ import annotations

import gzip
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpudiag.agent.exporters.families import Family, families, histograms
from gpudiag.agent.exporters.negotiate import accepts, quality
from gpudiag.agent.exporters.view import Snapshot, Snapshots
from gpudiag.probes import Labels
from gpudiag.probes.catalog import Metric

Format = Literal["text", "openmetrics"]

CONTENT_TYPES: dict[Format, str] = {
    "text": "text/plain; version=0.0.4; charset=utf-8",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
_GZIP_LEVEL = 1


@dataclass(frozen=True, slots=True)
class Exposition:
    """The answer to one scrape; `encoding` is gzip or empty."""

    body: bytes
    content_type: str
    encoding: str


class Renderer:
    """Renders `/metrics`. Any thread may call it; bodies are kept until the snapshot changes."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._lock = threading.Lock()
        self._of: Snapshot | None = None
        self._bodies: dict[tuple[Format, bool], bytes] = {}
        self._prefixes: dict[tuple[str, Labels], str] = {}
        self.rendered = 0

    def render(self, accept: str = "", accept_encoding: str = "") -> Exposition:
        """The text in the format and encoding that the two request headers prefer."""
        wanted = chosen_format(accept)
        zipped = accepts(accept_encoding, "gzip")
        with self._lock:
            body = self._body(self._snapshots.get(), wanted, zipped)
        return Exposition(body, CONTENT_TYPES[wanted], "gzip" if zipped else "")

    def _body(self, snapshot: Snapshot, wanted: Format, zipped: bool) -> bytes:
        if snapshot is not self._of:
            self._of = snapshot
            self._bodies = {}
        body = self._bodies.get((wanted, zipped))
        if body is None:
            if zipped:
                body = gzip.compress(self._body(snapshot, wanted, False), _GZIP_LEVEL, mtime=0)
            else:
                body = self._text(snapshot, wanted).encode()
                self.rendered += 1
            self._bodies[wanted, zipped] = body
        return body

    def _text(self, snapshot: Snapshot, wanted: Format) -> str:
        lines: list[str] = []
        kept: dict[tuple[str, Labels], str] = {}
        for family in families(snapshot):
            lines.extend(_header(family.metric, wanted))
            if family.metric.kind == "histogram":
                lines.extend(_histogram_lines(family))
                continue
            for name, pairs, _, value in family.readings:
                key = (name, pairs)
                prefix = kept[key] = self._prefixes.get(key) or _prefix(name, pairs)
                lines.append(prefix + _number(value))
        # Only what was printed this time is kept, so that ended series do not pile up.
        self._prefixes = kept
        if wanted == "openmetrics":
            lines.append("# EOF")
        return "\n".join(lines) + "\n"


def chosen_format(accept: str) -> Format:
    """OpenMetrics where the header ranks it at least as high as plain text, as Prometheus does."""
    openmetrics = quality(accept, "application/openmetrics-text")
    return "openmetrics" if openmetrics and openmetrics >= quality(accept, "text/plain") else "text"


def _header(metric: Metric, wanted: Format) -> Iterator[str]:
    name, kind = metric.name, metric.kind
    text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
    if wanted == "openmetrics":
        suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
        name = name.removesuffix(suffix)
        yield f"# HELP {name} " + text.replace('"', r"\"")
        yield f"# TYPE {name} {kind}"
        # OpenMetrics allows a unit only where the name ends in it, and never on info.
        if metric.unit and name.endswith("_" + metric.unit):
            yield f"# UNIT {name} {metric.unit}"
    else:
        yield f"# HELP {name} {text}"
        yield f"# TYPE {name} {'gauge' if kind == 'info' else kind}"


def _histogram_lines(family: Family) -> Iterator[str]:
    name = family.metric.name
    for series in histograms(family):
        for bound, count in series.buckets:
            pairs = (*series.labels, ("le", bound))
            yield _prefix(name + "_bucket", pairs) + _number(count)
        if series.sum is not None:
            yield _prefix(name + "_sum", series.labels) + _number(series.sum)
        yield _prefix(name + "_count", series.labels) + _number(series.count)


def _prefix(name: str, pairs: Labels) -> str:
    if not pairs:
        return name + " "
    return name + "{" + ",".join(f'{key}="{_escape(value)}"' for key, value in pairs) + "} "


def _escape(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
