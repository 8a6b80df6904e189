import pytest

from gpudiag.agent.rules.contract import Healthy, Unknown, subject
from tests.agent.rules.seam import diagnoses, judge


def series(**by_metric):
    """`step=[...]`: one text in promtool's notation per rank."""
    found = {}
    for metric, texts in by_metric.items():
        for rank, text in enumerate(texts):
            found[f'gpudiag_train_{metric}_seconds{{job="llama",rank="{rank}"}}'] = text
    return found


def info(rank, world=4, **more):
    pairs = {"job": "llama", "rank": str(rank), "world_size": str(world), **more}
    inner = ",".join(f'{name}="{value}"' for name, value in pairs.items())
    return {f"gpudiag_train_info{{{inner}}}": "1x40"}


def said(which, more=None, **by_metric):
    step = {"step": ["0.1x40"] * len(next(iter(by_metric.values())))}
    return judge("straggler", {**series(**step, **by_metric), **(more or {})}, every=5.0)[which]


def found(more=None, **by_metric):
    step = {"step": ["0.1x40"] * len(next(iter(by_metric.values())))}
    verdicts = judge("straggler", {**series(**step, **by_metric), **(more or {})}, every=5.0)
    return diagnoses(verdicts).get("llama")


def test_who_waits_least_is_waited_for():
    verdict = found(comm_wait=["0.06x40", "0.01x40", "0.06x40"])
    assert verdict.subject == subject(job="llama", rank="1")
    assert "Rank 1 of llama is 50 ms slower in every step of 100 ms" in verdict.summary
    assert "the 2 ranks beside it wait" in verdict.summary


def test_the_others_are_healthy():
    verdicts = judge(
        "straggler", series(step=["0.1x40"] * 2, comm_wait=["0.06x40", "0.01x40"]), every=5.0
    )
    assert Healthy(subject(job="llama", rank="0")) in verdicts


def test_several_kinds_of_evidence_make_it_surer():
    one = found(comm_wait=["0.06x40", "0.01x40"])
    both = found(comm_wait=["0.06x40", "0.01x40"], arrival_lag=["0.001x40", "0.05x40"])
    assert both.confidence > one.confidence
    assert {e.name for e in both.evidence} >= {
        "gpudiag_train_arrival_lag_seconds",
        "gpudiag_train_comm_wait_seconds",
    }


def test_kinds_that_disagree_make_it_less_sure():
    agreed = found(comm_wait=["0.06x40", "0.01x40"])
    split = found(comm_wait=["0.06x40", "0.01x40"], compute=["0.09x40", "0.03x40"])
    assert split.subject == agreed.subject
    assert split.confidence < agreed.confidence


def test_where_all_phases_are_alike_it_cannot_be_told():
    verdict = said(0, compute=["0.09x40"] * 4)
    assert isinstance(verdict, Unknown)
    assert verdict.subject == subject(job="llama")
    assert "gpudiag_train_comm_wait_seconds" in verdict.missing[0]


def test_compute_alone_names_where_it_differs():
    assert found(compute=["0.05x40", "0.05x40", "0.09x40"]).subject[1] == ("rank", "2")


def test_a_loader_is_blamed_by_its_wait_alone_but_not_surely():
    verdict = found(compute=["0.1x40", "0.05x40"], data_wait=["0.001x40", "0.051x40"])
    assert (verdict.cause, verdict.subject[1]) == ("data-starvation", ("rank", "1"))
    assert verdict.confidence < 0.6


def test_one_rank_of_many_cannot_be_compared():
    (verdict,) = judge("straggler", {**series(step=["0.1x40"]), **info(0, 8)}, every=5.0)
    assert isinstance(verdict, Unknown)
    assert "1 of 8" in verdict.missing[0]


def test_a_job_of_one_rank_is_nobodys_straggler():
    assert judge("straggler", {**series(step=["0.1x40"]), **info(0, 1)}, every=5.0) == []


def test_in_a_pipeline_the_wait_alone_names_no_stage():
    layout = {k: v for n in range(4) for k, v in info(n, layout="dp=2,pp=2").items()}
    verdict = said(0, layout, comm_wait=["0.06x40", "0.01x40", "0.06x40", "0.01x40"])
    assert "which stage" in verdict.missing[0]


def gpu(rank):
    return info(rank, uuid=f"GPU-{rank}")


def clocks(*hertz):
    return {
        f'gpudiag_gpu_clock_hertz{{uuid="GPU-{n}",clock="sm"}}': f"{clock:g}x40"
        for n, clock in enumerate(hertz)
    }


SLOW = {"comm_wait": ["0.06x40", "0.01x40"]}


@pytest.mark.parametrize(
    ("hardware", "cause"),
    [
        (clocks(1.7e9, 1.4e9), "gpu-throttled"),
        (clocks(1.7e9, 1.69e9), "slow-worker"),
        (clocks(1.4e9, 1.4e9), "slow-worker"),
        (
            {
                'gpudiag_gpu_throttle_active{uuid="GPU-1",reason="sw_thermal"}': "1x40",
                'gpudiag_gpu_throttle_active{uuid="GPU-0",reason="sw_thermal"}': "0x40",
            },
            "gpu-throttled",
        ),
        (
            {
                f'gpudiag_gpu_throttle_active{{uuid="GPU-{n}",reason="power_cap"}}': "1x40"
                for n in range(2)
            },
            "slow-worker",
        ),
        (
            {
                'gpudiag_gpu_pcie_link_generation{uuid="GPU-1"}': "1x40",
                'gpudiag_gpu_pcie_link_generation_max{uuid="GPU-1"}': "5x40",
                'gpudiag_gpu_pcie_link_generation{uuid="GPU-0"}': "5x40",
            },
            "pcie-degraded",
        ),
        (
            {
                f'gpudiag_gpu_pcie_link_generation{suffix}{{uuid="GPU-{n}"}}': value
                for n in range(2)
                for suffix, value in (("", "4x40"), ("_max", "5x40"))
            },
            "slow-worker",
        ),
        (
            {'gpudiag_gpu_nvlink_errors_total{uuid="GPU-1",link="2",kind="replay"}': "0+9x40"},
            "nvlink-degraded",
        ),
        (
            {
                "gpudiag_train_gc_pause_seconds" + '{job="llama",rank="1"}': "0.045x40",
            },
            "host-contention",
        ),
    ],
)
def test_the_cause_that_its_hardware_tells(hardware, cause):
    assert found({**gpu(0), **gpu(1), **hardware}, **SLOW).cause == cause


def test_without_a_look_at_the_hardware_it_says_what_would_settle_it():
    verdict = found({**gpu(0), **gpu(1)}, **SLOW)
    assert verdict.cause == "slow-worker"
    assert any("clock" in missing for missing in verdict.missing)


def test_without_any_gpu_the_hardware_is_not_asked_for():
    assert found(**SLOW).missing == (
        "gpudiag_train_data_wait_seconds",
        "gpudiag_process_context_switches_total of its process",
    )


def test_with_gpus_about_it_asks_which_is_the_ranks():
    verdict = found({'gpudiag_gpu_info{uuid="GPU-1",gpu="1"}': "1x40"}, **SLOW)
    assert "which GPU" in verdict.missing[0]


def test_since_is_when_it_began():
    verdict = found(comm_wait=["0.03x25 0.06x14", "0.03x25 0.01x14"])
    assert verdict.since == pytest.approx(130.0, abs=10.0)
