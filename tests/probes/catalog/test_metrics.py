from collections import Counter

import pytest

from gpudiag.probes import catalog
from gpudiag.probes.errors import UsageError

RESERVED = ("_count", "_sum", "_bucket", "_created", "_gsum", "_gcount")
METRICS = list(catalog.metrics().values())


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_is_named_and_described_by_the_conventions(metric: catalog.Metric) -> None:
    assert metric.name.startswith("gpudiag_")
    assert not metric.name.endswith(RESERVED)
    assert (metric.kind == "info") == metric.name.endswith("_info")
    assert metric.help.endswith(".")
    assert metric.source


def test_gpu_metrics_carry_their_gpu() -> None:
    node_level = {"gpudiag_gpus", "gpudiag_gpus_expected"}
    of_gpus = [m for m in METRICS if m.name.startswith("gpudiag_gpu") and m.name not in node_level]
    assert of_gpus
    assert all(m.labels[:2] == ("uuid", "gpu") for m in of_gpus)


def test_training_series_carry_job_and_rank() -> None:
    trained = [m for m in METRICS if m.source == "torch"]
    assert all(m.labels[:2] == ("job", "rank") for m in trained)


def test_no_label_is_named_twice() -> None:
    assert all(len(set(m.labels)) == len(m.labels) for m in METRICS)


def test_only_directions_of_one_flow_share_an_otel_name() -> None:
    shared = {name for name, n in Counter(m.otel for m in METRICS).items() if n > 1}
    assert shared == {"hw.gpu.io"}


@pytest.mark.parametrize(
    ("name", "otel"),
    [
        ("gpudiag_gpu_memory_used_bytes", "hw.gpu.memory.usage"),
        ("gpudiag_gpu_ecc_errors_total", "hw.errors"),
        ("gpudiag_gpu_memory_reserved_bytes", "gpudiag.gpu.memory_reserved"),
        ("gpudiag_train_steps_total", "gpudiag.train.steps"),
    ],
)
def test_otel_name(name: str, otel: str) -> None:
    assert catalog.metrics()[name].otel == otel


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "gauge"}, "_total is the ending of counters"),
        ({"unit": "bytes"}, "does not end in its unit"),
        ({"kind": "summary"}, "is not one of gauge"),
    ],
)
def test_a_metric_against_the_conventions_is_refused(change: dict[str, str], said: str) -> None:
    row = {"name": "gpudiag_x_total", "kind": "counter", "help": "X.", "source": "host", **change}
    with pytest.raises(UsageError, match=said):
        catalog._metric(row)
