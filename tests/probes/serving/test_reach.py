"""Each kind of server by each serving metric: told on one of its pages, or said why it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.agent.translate import Translator
from gpudiag.probes import Sample
from gpudiag.probes.catalog import metrics
from gpudiag.probes.serving.engines import engines, not_told
from gpudiag.probes.serving.pages import rows
from gpudiag.probes.serving.servers import METRICS

PAGES = Path(__file__).parent / "pages"
OURS = {name for name in metrics() if name.startswith("gpudiag_serving_")} - METRICS
PARTS = ("_bucket", "_sum", "_count")


def reached(kind):
    """Metrics that come out of this kind's pages, a histogram as its whole."""
    found = set()
    for page in PAGES.glob(f"{kind}*.txt"):
        theirs = [Sample(name, pairs, 1.0, value) for name, pairs, value in rows(page.read_text())]
        for sample in Translator().samples(theirs):
            whole = next(
                (sample.metric.removesuffix(p) for p in PARTS if sample.metric.endswith(p)), ""
            )
            found.add(whole if whole in OURS else sample.metric)
    return found & OURS


@pytest.mark.parametrize("kind", engines())
@pytest.mark.parametrize("metric", sorted(OURS))
def test_a_metric_is_reached_or_said_not_to_be_offered(kind, metric):
    offered, why = metric in reached(kind), not_told(kind).get(metric, "")
    assert offered != bool(why), f"{kind} {metric}: reached {offered}, not offered: {why!r}"


@pytest.mark.parametrize("kind", engines())
def test_what_is_not_offered_is_a_metric_of_ours(kind):
    assert not_told(kind).keys() <= OURS
