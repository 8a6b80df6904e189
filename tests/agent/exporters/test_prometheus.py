"""`/metrics` as Prometheus reads it."""

from __future__ import annotations

import gzip
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from gpudiag.agent.exporters.prometheus import Renderer
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.probes import labels
from gpudiag.probes.catalog import metrics
from tests.agent.exporters.fake_view import FakeView
from tests.tools import needs

OPENMETRICS = "application/openmetrics-text"
read_text: Any = parser.text_string_to_metric_families
read_openmetrics: Any = openmetrics_parser.text_string_to_metric_families
GOLDEN = Path(__file__).parent / "golden"


def text(view: FakeView, accept: str = "") -> str:
    return Renderer(Snapshots(view)).render(accept).body.decode()


def series(families: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


@pytest.mark.parametrize(("accept", "name"), [("", "metrics.txt"), (OPENMETRICS, "metrics.om")])
def test_golden(view: FakeView, accept: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.python_version", lambda: "3.11.7")
    assert text(view, accept) == (GOLDEN / name).read_text()


@pytest.mark.parametrize(("accept", "parse"), [("", read_text), (OPENMETRICS, read_openmetrics)])
def test_prometheus_client_reads_back_every_series(view: FakeView, accept: str, parse: Any) -> None:
    back = series(parse(text(view, accept)))
    for metric, pairs, _, value in view.readings:
        assert back[metric, pairs] == value
    assert back["gpudiag_symptom_unknown", labels(symptom="fabric-manager-down")] == 1.0


def test_hostile_label_values_survive_both_formats(view: FakeView) -> None:
    evil = labels(mountpoint='/a"} 1\n# HELP \\n <b>')
    view.readings = [("gpudiag_filesystem_size_bytes", evil, view.time, 7.0)]
    for accept, parse in (("", read_text), (OPENMETRICS, read_openmetrics)):
        assert series(parse(text(view, accept)))["gpudiag_filesystem_size_bytes", evil] == 7.0


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), 1e22, 1e-7, 0.1 + 0.2])
def test_numbers_come_back_exactly(view: FakeView, value: float) -> None:
    view.readings = [("gpudiag_train_loss", labels(job="j", rank="0"), view.time, value)]
    assert (
        series(read_openmetrics(text(view, OPENMETRICS)))[
            "gpudiag_train_loss", labels(job="j", rank="0")
        ]
        == value
    )


def promtool(exposition: str) -> str:
    check = ["promtool", "check", "metrics"]
    said = subprocess.run(check, input=exposition, capture_output=True, text=True, check=False)
    return said.stdout + said.stderr


@needs("promtool", "prometheus")
def test_promtool_finds_nothing_to_say(view: FakeView) -> None:
    assert promtool(text(view)) == ""


@needs("promtool", "prometheus")
def test_promtool_finds_nothing_to_say_of_any_metric(view: FakeView) -> None:
    last = labels(le="+Inf")
    view.readings = [
        (m.name + "_bucket", last, view.time, 1.0)
        if m.kind == "histogram"
        else (m.name, (), view.time, 1.0)
        for m in metrics().values()
    ]
    assert len(text(view)) > 10_000
    assert promtool(text(view)) == ""


def test_gzip_holds_the_same_text(view: FakeView) -> None:
    renderer = Renderer(Snapshots(view))
    zipped = renderer.render("", "gzip, deflate")
    assert zipped.encoding == "gzip"
    assert gzip.decompress(zipped.body) == renderer.render("").body


def test_parallel_scrapes_render_once(view: FakeView) -> None:
    renderer = Renderer(Snapshots(view))
    scrapes = [threading.Thread(target=renderer.render) for _ in range(50)]
    for scrape in scrapes:
        scrape.start()
    for scrape in scrapes:
        scrape.join()
    assert (renderer.rendered, view.asked) == (1, 1)


def test_what_is_gone_is_not_printed_again(view: FakeView) -> None:
    renderer = Renderer(Snapshots(view))
    assert b"gpudiag_gpu_info" in renderer.render().body
    view.readings, view.version = [], 2
    assert b"gpudiag_gpu_info" not in renderer.render().body
