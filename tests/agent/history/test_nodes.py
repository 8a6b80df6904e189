from __future__ import annotations

import pytest

from gpudiag.agent.history.labels import own, without_scrape_job
from gpudiag.agent.history.nodes import UNNAMED, host_of, places
from gpudiag.probes import labels


@pytest.mark.parametrize(
    ("instance", "host"),
    [
        ("10.0.0.5:9400", "10.0.0.5"),
        ("n1", "n1"),
        ("[fd00::5]:9400", "fd00::5"),
        ("https://n1:9400/metrics", "n1"),
        ("", ""),
    ],
)
def test_the_host_of_an_address(instance, host):
    assert host_of(instance) == host


def test_a_targets_series_are_those_of_the_node_that_one_of_them_names():
    named = labels(instance="10.0.0.5:9400", job="dcgm", Hostname="n1")
    bare = labels(instance="10.0.0.5:9400", job="dcgm")
    neighbour = labels(instance="10.0.0.5:9100", job="node")
    known = places([("a", named), ("b", bare), ("c", neighbour)])
    assert {known.node(one) for one in (named, bare, neighbour)} == {"n1"}


def test_a_gateway_of_many_nodes_gives_its_name_to_none():
    one, two = (labels(instance="otel:8889", Hostname=name) for name in ("n1", "n2"))
    other = labels(instance="otel:8889")
    known = places([("a", one), ("a", two), ("a", other)])
    assert [known.node(x) for x in (one, two, other)] == ["n1", "n2", "otel"]


def test_a_pods_node_is_where_kubernetes_says_it_runs():
    info = labels(exported_pod="vllm-0", exported_namespace="ml", exported_node="n7", pod="ksm")
    known = places([], [info])
    assert known.node(labels(instance="10.1.2.3:8000", pod="vllm-0", namespace="ml")) == "n7"


def test_series_without_any_place_are_one_node():
    assert places([]).node(()) == UNNAMED


def test_what_the_exporter_wrote_comes_back_out_of_exported_labels():
    scraped = labels(job="gpus", exported_job="llama", instance="n1:9440", rank="3", team="x")
    assert own("gpudiag_train_loss", scraped) == labels(job="llama", rank="3")


def test_of_foreign_series_only_the_scrape_goes():
    scraped = labels(job="dcgm", prometheus_replica="a", UUID="GPU-1", pod="exporter-x")
    scraped += (("exported_pod", "llama-0"),)
    assert own("DCGM_FI_DEV_GPU_TEMP", scraped) == labels(UUID="GPU-1", pod="llama-0")


def test_a_scrapes_job_is_no_training_job():
    scraped = labels(job="gpus", instance="n1:9440", pid="7")
    assert without_scrape_job(scraped, {("gpus", "n1:9440")}) == labels(instance="n1:9440", pid="7")
    assert without_scrape_job(scraped, set()) == scraped
