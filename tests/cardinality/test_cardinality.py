"""How many series there are: bounded for each metric, documented, and counted on a full node."""

from __future__ import annotations

from gpudiag.agent.exporters import told
from gpudiag.probes import catalog
from tests.cardinality.bounds import DOCUMENT, MEASURED, MOST, bounds, document
from tests.cardinality.node import GPUS, RANKS, SERVERS, full, settled


def test_the_document_is_made_from_the_catalogue():
    assert DOCUMENT.read_text() == document(), "python -m tests.cardinality.bounds"


def test_every_label_of_the_catalogue_is_bounded_and_no_other():
    used = {label for metric in catalog.metrics().values() for label in metric.labels}
    assert set(bounds().labels) == used
    assert set(bounds().metrics) <= set(catalog.metrics())


def test_every_histogram_says_how_many_buckets_it_has():
    for name, metric in catalog.metrics().items():
        assert ("buckets" in bounds().metrics.get(name, {})) == (metric.kind == "histogram"), name


def test_the_bound_of_symptoms_is_the_catalogues():
    assert bounds().labels["symptom"]["values"] == len(catalog.symptoms())


def test_a_full_node_exports_fewer_series_than_promised(tmp_path, sim):
    with full(tmp_path, sim) as agent:
        found = settled(agent)
        labels = agent.get("/metrics")
    known, total = bounds(), sum(found.values())
    # It was counted with little firing: the same node with all that may fire at once.
    quiet = total - sum(number for name, number in found.items() if name in told.METRICS)
    assert quiet + sum(known.series(catalog.metrics()[name]) for name in told.METRICS) < MOST
    # The simulated node is as full as it claims: else the number says nothing.
    assert found["gpudiag_gpu_info"] == GPUS
    assert found["gpudiag_train_info"] == RANKS
    assert found["gpudiag_serving_up"] == SERVERS
    assert abs(total - MEASURED) <= 150, "state the new number in bounds.py"
    for name, number in found.items():
        assert number <= known.series(catalog.metrics()[name]), name
    for name, metric in catalog.metrics().items():
        shown = [line for line in labels.splitlines() if line.startswith(f"{name}{{")]
        for line in shown:
            pairs = line[line.index("{") + 1 : line.rindex("}")]
            used = {pair.partition("=")[0] for pair in _pairs(pairs)}
            assert used <= {*metric.labels, "le"}, name


def _pairs(text):
    """The pairs of a label set; a value's own commas stand inside its quotes."""
    parts, quoted, start = [], False, 0
    for place, letter in enumerate(text):
        quoted ^= letter == '"' and text[place - 1] != "\\"
        if letter == "," and not quoted:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]
