"""The documented bound of each metric, and the document made of it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpudiag.probes import catalog
from gpudiag.probes.catalog import Metric

ROOT = Path(__file__).parents[2]
DATA = ROOT / "deploy" / "labels.toml"
DOCUMENT = ROOT / "deploy" / "METRICS.md"
MOST = 5000
MEASURED = 4680
"""As `test_a_full_node_exports_fewer_series_than_promised` counted it; hosts differ a little."""

_HEAD = f"""\
# Metrics, their labels and how many series they are

Made from the catalogue and `labels.toml` by `python -m tests.cardinality.bounds`; a test compares.
The counts are for a full node: 16 GPUs with 18 NVLinks each, 16 ranks with 4 loaders each, and 4
servers. Not all of it can stand side by side: such a node, simulated with every label set that its
GPUs, ranks and servers have, exports {MEASURED:,} series, and the test that counts them fails where
they come to {MOST:,} with all findings that may fire at once. Nothing is exported for what is not
there: without MIG, InfiniBand or training those rows are empty.

A series ends with what it speaks of: that of a process, a rank or a server that is gone leaves
`/metrics` within 15 seconds or five of its own intervals. No label holds what grows without end: no
log text, no request, no time.
"""


@dataclass(frozen=True)
class Bounds:
    """The data of `labels.toml`."""

    labels: dict[str, dict[str, Any]]
    metrics: dict[str, dict[str, Any]]

    def series(self, metric: Metric) -> int:
        """How many series the metric has on the full node, a histogram's parts counted."""
        own = self.metrics.get(metric.name, {})
        number = own.get("buckets", 1)
        for label in metric.labels:
            number *= own.get(label, self._values(label, metric.labels))
        return int(number)

    def _values(self, label: str, beside: tuple[str, ...]) -> int:
        known = self.labels[label]
        follows = set(known.get("follows", ())) & set(beside)
        return 1 if follows or "values" not in known else int(known["values"])


def bounds() -> Bounds:
    plain = tomllib.loads(DATA.read_text())
    return Bounds(plain["label"], plain["metric"])


def document() -> str:
    known = bounds()
    rows = ["", "## Metrics", "", "| metric | kind | labels | series |", "|---|---|---|---|"]
    for name, metric in catalog.metrics().items():
        labels = ", ".join(metric.labels) or "none"
        rows.append(f"| `{name}` | {metric.kind} | {labels} | {known.series(metric):,} |")
    rows += ["", "## Labels", "", "| label | values | bounded by |", "|---|---|---|"]
    for label, about in known.labels.items():
        values = about.get("values")
        beside = " or ".join(about.get("follows", ()))
        told = f"{values}" if values else f"one per {beside}"
        if values and beside:
            told += f", one beside {beside}"
        rows.append(f"| {label} | {told} | {about['why']} |")
    return _HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())
