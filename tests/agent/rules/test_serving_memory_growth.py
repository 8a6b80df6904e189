from gpudiag.agent.rules.contract import Diagnosis, Healthy
from tests.agent.rules.seam import diagnoses, judge

SYMPTOM = "serving-memory-growth"
KV = 'gpudiag_serving_kv_cache_usage_ratio{server="a"}'
RUNNING = 'gpudiag_serving_requests_running{server="a"}'
USED = 'gpudiag_gpu_memory_used_bytes{uuid="GPU-0"}'
CONFIG = 'gpudiag_serving_config_info{{server="a",kv_limit="{}"}}'
RSS = 'gpudiag_process_resident_bytes{pid="7",role="server"}'


def test_an_idle_cache_that_is_not_empty_is_told() -> None:
    (said,) = judge(SYMPTOM, {RUNNING: "9x30 0x30", KV: "0.6x30 0.4x30"}, every=60.0)
    assert isinstance(said, Diagnosis)
    assert said.cause == "requests-not-released"


def test_one_that_was_never_emptier_when_idle_is_as_ever() -> None:
    cache = {RUNNING: "0x20 9x20 0x20", KV: "0.4x20 0.6x20 0.4x20"}
    assert judge(SYMPTOM, cache, every=60.0) == [Healthy((("server", "a"),))]


def test_growth_under_a_limit_is_left_open() -> None:
    series = {RUNNING: "9x60", USED: "3e10+3e8x60", CONFIG.format("0.9"): "1x60"}
    assert diagnoses(judge(SYMPTOM, series, every=60.0))["a"].cause == "undetermined"


def test_growth_without_one_is_the_cache() -> None:
    series = {RUNNING: "9x60", USED: "3e10+3e8x60", CONFIG.format("none"): "1x60"}
    assert diagnoses(judge(SYMPTOM, series, every=60.0))["a"].cause == "kv-cache-unbounded"


def test_young_growth_wakes_nobody() -> None:
    (said,) = judge(SYMPTOM, {RUNNING: "9x20", RSS: "1e10+3e8x20"}, every=60.0)
    assert isinstance(said, Diagnosis)
    assert said.severity == "info"
