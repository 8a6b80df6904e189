import pytest

from gpudiag.agent.rules.contract import UNDETERMINED, Diagnosis, Healthy
from tests.agent.rules.seam import diagnoses, judge

WHO = 'job="llama",rank="0"'
FLAT = "38000000000x100"
RISING = "38000000000+300000000x100"


def torch(metric: str, more: str = "") -> str:
    return f"gpudiag_torch_{metric}{{{WHO}{more}}}"


def told(series: dict[str, str]) -> Diagnosis:
    found = diagnoses(judge("memory-slow-growth", series, every=60.0))
    assert len(found) == 1
    return next(iter(found.values()))


def test_what_torch_holds_alone_leaves_the_cause_open() -> None:
    found = told({torch("allocated_bytes"): RISING, torch("reserved_bytes"): RISING})
    assert found.cause == UNDETERMINED
    assert "gc.collect" in found.missing[0]


def test_old_blocks_mean_retained_tensors() -> None:
    blocks = torch("live_blocks", ',age="old"')
    found = told({torch("allocated_bytes"): RISING, blocks: "10+3x100"})
    assert found.cause == "tensors-retained-across-steps"


def test_a_call_site_is_named() -> None:
    site = f'gpudiag_leak_site_bytes{{{WHO},site="train.py:88"}}'
    found = told({torch("allocated_bytes"): RISING, site: "_x50 9000000000x50"})
    assert found.cause == "tensors-retained-across-steps"
    assert "train.py:88" in found.summary


@pytest.mark.parametrize(
    ("extra", "cause"),
    [
        ({}, "caching-growth"),
        ({"alloc_retries_total": "0x50 0+1x50"}, "fragmentation-growth"),
        ({"inactive_split_bytes": "1000000000+250000000x100"}, "fragmentation-growth"),
    ],
)
def test_reserved_alone(extra: dict[str, str], cause: str) -> None:
    more = {torch(metric): values for metric, values in extra.items()}
    series = {torch("allocated_bytes"): FLAT, torch("reserved_bytes"): RISING, **more}
    assert told(series).cause == cause


def test_a_growing_cache_is_info() -> None:
    found = told({torch("allocated_bytes"): FLAT, torch("reserved_bytes"): RISING})
    assert found.severity == "info"


def test_growth_outside_torch() -> None:
    flat = {torch("allocated_bytes"): FLAT, torch("reserved_bytes"): FLAT}
    used = {'gpudiag_gpu_memory_used_bytes{uuid="GPU-0",gpu="0"}': "50000000000+300000000x100"}
    assert told({**flat, **used}).cause == "comm-buffers-not-reclaimed"


def test_loader_workers() -> None:
    flat = {torch("allocated_bytes"): FLAT, torch("reserved_bytes"): FLAT}
    pss = f'gpudiag_process_pss_bytes{{{WHO},role="loader",pid="7"}}'
    assert told({**flat, pss: "900000000+9000000x100"}).cause == "data-loading-leak"


def test_a_trifle_of_a_loader_worker_is_healthy() -> None:
    pss = f'gpudiag_process_pss_bytes{{{WHO},role="loader",pid="7"}}'
    series = {torch("allocated_bytes"): FLAT, pss: "900000000+150000x100"}
    assert diagnoses(judge("memory-slow-growth", series, every=60.0)) == {}


def test_a_few_mib_outside_torch_are_noise() -> None:
    series = {torch("reserved_bytes"): FLAT, torch("non_torch_bytes"): "1900000000+200000x100"}
    assert diagnoses(judge("memory-slow-growth", series, every=60.0)) == {}


def test_a_worker_without_a_job_belongs_to_the_process_of_its_rank() -> None:
    flat = {torch("allocated_bytes"): FLAT, torch("reserved_bytes"): FLAT}
    pss = 'gpudiag_process_pss_bytes{rank="0",role="loader",pid="7"}'
    assert dict(told({**flat, pss: "900000000+9000000x100"}).subject)["job"] == "llama"


def test_memory_that_only_gc_frees() -> None:
    saw = " ".join(["40000000000+80000000x17"] * 8)
    pauses = f"gpudiag_train_gc_pause_seconds{{{WHO}}}"
    series = {torch("allocated_bytes"): saw, pauses: " ".join(["0.3 0x16"] * 8)}
    found = diagnoses(judge("memory-slow-growth", series, every=10.0))["llama"]
    assert found.cause == "temporaries-not-freed-after-step"


def test_growth_in_evaluation_alone() -> None:
    level, values, phases = 30_000_000_000, [], []
    for _ in range(8):
        values += [f"{level}x23", f"{level}+100000000x5"]
        phases += ["0x23", "2x5"]
        level += 500_000_000
    eval_ = f'gpudiag_train_phase_seconds{{{WHO},phase="eval"}}'
    series = {torch("allocated_bytes"): " ".join(values), eval_: " ".join(phases)}
    found = diagnoses(judge("memory-slow-growth", series, every=10.0))["llama"]
    assert found.cause == "log-or-cache-buffers"


def test_the_driver_alone_cannot_tell_why() -> None:
    used = 'gpudiag_gpu_memory_used_bytes{uuid="GPU-0",gpu="0"}'
    process = 'gpudiag_gpu_process_memory_bytes{uuid="GPU-0",pid="7",process="python"}'
    found = told({used: RISING, process: RISING})
    assert (found.cause, found.subject) == (UNDETERMINED, (("uuid", "GPU-0"),))
    assert "python (pid 7)" in found.summary
    assert found.missing


def test_young_growth_wakes_nobody() -> None:
    assert told({torch("allocated_bytes"): "38000000000+300000000x20"}).severity == "info"
    assert told({torch("allocated_bytes"): RISING}).severity is None


def test_flat_is_healthy_and_too_short_is_neither() -> None:
    flat = {torch("allocated_bytes"): FLAT}
    assert judge("memory-slow-growth", flat, every=60.0) == [
        Healthy((("job", "llama"), ("rank", "0")))
    ]
    assert judge("memory-slow-growth", {torch("allocated_bytes"): "3e9x5"}, every=60.0) == []


def test_the_gpu_is_not_told_of_beside_its_process() -> None:
    info = f'gpudiag_train_info{{{WHO},uuid="GPU-0"}}'
    used = 'gpudiag_gpu_memory_used_bytes{uuid="GPU-0",gpu="0"}'
    found = told({torch("allocated_bytes"): RISING, used: RISING, info: "1x100"})
    assert dict(found.subject) == {"uuid": "GPU-0", "job": "llama", "rank": "0"}
