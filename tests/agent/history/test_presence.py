from __future__ import annotations

import pytest

from gpudiag.agent.history.listing import Listing, Node, Source
from gpudiag.agent.history.names import UNREAD, wanted
from gpudiag.agent.history.nodes import Places
from gpudiag.agent.history.presence import EVENTS_ALONE, NEEDS, TITLES, presence
from gpudiag.agent.rules import RULES
from gpudiag.probes.catalog import metrics
from gpudiag.probes.catalog.dialects import PARTS, dialects


def listing(*nodes, beside=()):
    made = tuple(
        Node(f"n{n}", (Source((), tuple(sorted(names)), len(names)),))
        for n, names in enumerate(nodes, start=1)
    )
    names = frozenset(name for node in made for name in node.names) | frozenset(beside)
    return Listing(made, Places(), names, frozenset())


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("gpudiag", {"gpudiag_gpu_power_watts"}),
        ("dcgm-exporter", {"DCGM_FI_DEV_GPU_TEMP"}),
        ("dcgm-exporter", {"DCGM_FI_DEV_GPU_TEMP_CELSIUS"}),
        ("nvidia_gpu_exporter", {"nvidia_smi_temperature_gpu"}),
        ("nvitop-exporter", {"gpu_temperature_C"}),
        ("node_exporter", {"node_memory_MemAvailable_bytes"}),
        ("vLLM", {"vllm:num_requests_running"}),
        ("SGLang", {"sglang:num_running_reqs"}),
        ("TGI", {"tgi_queue_size"}),
        ("Triton", {"nv_inference_request_success"}),
    ],
)
def test_each_exporter_is_known_by_its_names(title, names):
    assert presence(listing(names)).exporters == {title: 1}


def test_kube_state_metrics_is_seen_though_no_rule_reads_it():
    there = presence(listing({"nvidia_smi_temperature_gpu"}, beside=["kube_pod_info"]))
    assert there.exporters["kube-state-metrics"] == 1


def test_old_and_new_names_are_said():
    said = presence(listing({"DCGM_FI_DEV_GPU_TEMP"}, {"DCGM_FI_DEV_XID_ERROR"})).spellings
    assert said == ("dcgm-exporter with names from 4.6 on and older ones",)


def test_a_symptom_is_a_gap_on_those_nodes_alone_that_lack_its_field():
    both = {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_XID_ERRORS"}
    there = presence(listing(both, {"DCGM_FI_DEV_GPU_TEMP"}))
    (gap,) = (gap for gap in there.gaps if gap.symptom == "gpu-xid")
    assert gap.nodes == ("n2",)
    assert gap.missing == ("switch on DCGM_FI_DEV_XID_ERRORS (from 4.6 on DCGM_FI_DEV_XID_ERROR)")
    assert "gpu-xid" in there.judged


def test_what_no_exporter_there_could_give_needs_the_agent():
    there = presence(listing({"gpu_temperature_C"}))
    (gap,) = (gap for gap in there.gaps if gap.symptom == "gpu-xid")
    assert gap.missing == "needs gpudiag's agent on the nodes"


def test_without_a_gpu_nothing_of_gpus_is_missed():
    assert presence(listing({"vllm:num_requests_running"})).gaps == ()


@pytest.mark.parametrize("names", [{"gpu_temperature_C"}, {"gpudiag_train_step_seconds"}])
def test_every_symptom_is_judged_missed_or_has_nothing_there_to_befall(names):
    there = presence(listing(names))
    missed = {gap.symptom for gap in there.gaps}
    assert {*there.judged, *missed, *there.absent, *EVENTS_ALONE} == RULES.keys()
    assert missed.isdisjoint(there.judged)
    assert "serving-stalled" in there.absent


def test_tables_name_what_exists():
    whole = {name + part for name in metrics() for part in ("", *PARTS)}
    assert {f"gpudiag_{need}" for needs in NEEDS.values() for need in needs} <= whole
    assert NEEDS.keys() | set(EVENTS_ALONE) == RULES.keys()
    assert NEEDS.keys().isdisjoint(EVENTS_ALONE)
    # What has no series to read is there; what has some can be asked for.
    assert all(not RULES[symptom].reads for symptom in EVENTS_ALONE)
    assert {dialect.name for dialect in dialects()} <= TITLES.keys()
    assert metrics().keys() >= UNREAD


def test_no_rule_reads_the_history_of_what_is_not_asked_for():
    read = {name for rule in RULES.values() for name in rule.reads | rule.trends}
    assert read <= wanted()
