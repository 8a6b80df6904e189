"""What stands behind a finding as series, so that a dashboard can show it."""

from msgspec.structs import replace

from gpudiag.agent.exporters.told import DETAILED, FACTS, METRICS, told
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.rules.contract import Evidence, Rival

HOT = Finding(
    symptom="straggler",
    subject=(("job", "llama"), ("rank", "3")),
    cause="hot-gpu",
    confidence=0.9,
    severity="warning",
    state="firing",
    since=1.0,
    summary="Rank 3 is late.",
    evidence=(
        Evidence("gpudiag_gpu_clock_hertz", 1.2e9, "hertz", labels={"uuid": "G", "clock": "sm"}),
        Evidence("kmsg", "NVRM: thermal event"),
    ),
    rivals=(Rival("loader-starves", "its queue is full"),),
)


def series(finding, metric):
    return [
        (dict(pairs), value) for name, pairs, _, value in told([finding], 2.0) if name == metric
    ]


def test_a_fact_is_a_series_that_names_what_it_was_read_of():
    ((pairs, value),) = series(HOT, "gpudiag_finding_evidence")
    assert value == 1.2e9
    assert pairs["fact"] == "gpudiag_gpu_clock_hertz"
    assert pairs["of"] == "clock=sm,uuid=G"
    assert pairs["subject"] == "job=llama,rank=3"


def test_the_cause_that_lost_is_named():
    ((pairs, value),) = series(HOT, "gpudiag_finding_rival")
    assert (pairs["cause"], pairs["rival"], value) == ("hot-gpu", "loader-starves", 1.0)


def test_facts_without_end_are_cut_and_all_metrics_are_known_to_the_exporter():
    many = tuple(Evidence(f"fact_{n}", float(n)) for n in range(FACTS + 3))
    finding = replace(HOT, evidence=many)
    assert len(series(finding, "gpudiag_finding_evidence")) == FACTS
    assert {name for name, *_ in told([finding], 2.0)} <= METRICS


def test_of_many_the_gravest_are_told_with_what_is_behind_them_and_the_others_without():
    many = [replace(HOT, subject=(("rank", f"{n}"),), since=float(n)) for n in range(DETAILED + 5)]
    worst = replace(HOT, subject=(("rank", "worst"),), severity="critical", since=99.0)
    readings = list(told([*many, worst], 100.0))
    active = [dict(pairs) for name, pairs, *_ in readings if name == "gpudiag_finding_active"]
    behind = {dict(pairs)["subject"] for name, pairs, *_ in readings if name.endswith("_rival")}
    assert len(active) == len(many) + 1
    assert behind == {"rank=worst", *(f"rank={n}" for n in range(DETAILED - 1))}
