from gpudiag.agent.rules.contract import Diagnosis, Healthy, Unknown
from tests.agent.rules.seam import judge

PSI = 'gpudiag_host_pressure_ratio{resource="cpu",kind="some"}'
USED = "gpudiag_host_cpu_utilization_ratio"
SWITCHES = 'gpudiag_process_context_switches_total{pid="7",kind="involuntary"}'


def test_lasting_pressure_is_told_with_its_share_and_start() -> None:
    (said,) = judge("cpu-pressure", {PSI: "0.02x12 0.6x12", "gpudiag_host_load1": "210x24"})
    assert isinstance(said, Diagnosis)
    assert "60%" in said.summary
    assert "load 210" in said.summary
    assert said.since == 130.0


def test_less_pressure_counts_where_a_process_is_preempted() -> None:
    series = {PSI: "0.25x30", SWITCHES: "0+9000x30"}
    assert isinstance(judge("cpu-pressure", series)[0], Diagnosis)
    assert judge("cpu-pressure", {PSI: "0.25x30"}) == [Healthy(())]


def test_full_cpus_without_psi_cannot_be_told_from_good_use() -> None:
    (said,) = judge("cpu-pressure", {USED: "0.99x30"})
    assert isinstance(said, Unknown)
    assert "psi=1" in said.missing[0]


def test_nothing_is_said_where_nothing_is_measured() -> None:
    assert (
        judge("cpu-pressure", {'gpudiag_host_pressure_ratio{resource="io",kind="some"}': "1x9"})
        == []
    )


def test_each_node_is_judged_alone() -> None:
    calm = PSI.replace("{", '{node="a",')
    busy = PSI.replace("{", '{node="b",')
    said = judge("cpu-pressure", {calm: "0.01x30", busy: "0.7x30"})
    assert [type(v).__name__ for v in said] == ["Healthy", "Diagnosis"]
