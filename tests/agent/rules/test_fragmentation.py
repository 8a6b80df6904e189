import pytest

from gpudiag.agent.rules.contract import Healthy, subject
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "fragmentation"
OF = 'job="llama",rank="0"'
FULL = {
    f"gpudiag_torch_reserved_bytes{{{OF}}}": "70e9x30",
    f"gpudiag_torch_allocated_peak_bytes{{{OF}}}": "50e9x30",
}
RETRIED = {f"gpudiag_torch_alloc_retries_total{{{OF}}}": "0+1x30"}


def torch(name, value, more=""):
    return {f"gpudiag_torch_{name}{{{OF}{more}}}": f"{value}x30"}


def found(*more):
    series = {**FULL}
    for one in more:
        series |= one
    return diagnoses(judge(SYMPTOM, series)).get("llama")


def test_idle_memory_that_nobody_misses_is_healthy():
    said = judge(SYMPTOM, {**FULL, **torch("inactive_split_bytes", "18e9")})
    assert said == [Healthy(subject(job="llama", rank="0"))]


def test_whole_free_segments_are_cache():
    assert found(RETRIED, torch("inactive_split_bytes", "2e9")) is None


def test_in_which_form_it_is_idle_is_asked_for():
    verdict = found(RETRIED)
    assert (verdict.cause, bool(verdict.missing)) == ("undetermined", True)


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        (torch("private_pool_bytes", "15e9"), "private-pools-stranded"),
        (torch("stream_free_bytes", "15e9", ',stream="7"'), "stream-pools"),
        (torch("inactive_split_bytes", "15e9"), "undetermined"),
        (
            torch("inactive_split_bytes", "15e9")
            | torch("live_blocks", "900", ',age="young"')
            | torch("live_blocks", "20", ',age="old"'),
            "pinned-by-few-live-blocks",
        ),
        (
            torch("inactive_split_bytes", "15e9")
            | {f"gpudiag_train_sequence_length{{{OF}}}": "900 2000 3000 1500 " * 7},
            "variable-shapes",
        ),
    ],
)
def test_the_form_tells_the_cause(more, cause):
    assert found(RETRIED, more).cause == cause
