from gpudiag.agent.rules.contract import Diagnosis, Healthy, Unknown
from tests.agent.rules.seam import judge

SYMPTOM = "host-memory-pressure"
SOME = 'gpudiag_host_pressure_ratio{resource="memory",kind="some"}'
FULL = 'gpudiag_host_pressure_ratio{resource="memory",kind="full"}'
TOTAL = "gpudiag_host_memory_total_bytes"
LEFT = "gpudiag_host_memory_available_bytes"
GROUP = 'gpudiag_cgroup_memory_bytes{cgroup="/pod"}'
LIMIT = 'gpudiag_cgroup_memory_limit_bytes{cgroup="/pod"}'
KILLS = 'gpudiag_cgroup_oom_kills_total{cgroup="/pod"}'
KILLED = (
    "Memory cgroup out of memory: Killed process 99 (python) total-vm:9kB, anon-rss:9kB,"
    " file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:8kB oom_score_adj:0"
)


def test_the_kernel_line_names_the_victim_and_is_critical() -> None:
    (said,) = judge(SYMPTOM, {}, [(5.0, KILLED)])
    assert isinstance(said, Diagnosis)
    assert said.severity == "critical"
    assert "python (pid 99)" in said.summary


def test_an_old_kill_does_not_speak_of_the_present() -> None:
    assert judge(SYMPTOM, {SOME: "0x100"}, [(5.0, KILLED)], now=1000.0) == [Healthy(())]


def test_a_counted_kill_is_told_with_its_control_group() -> None:
    (said,) = judge(SYMPTOM, {KILLS: "3x6 4x6"})
    assert isinstance(said, Diagnosis)
    assert "/pod" in said.summary
    assert said.since == 70.0


def test_kills_before_the_recording_are_no_news() -> None:
    assert judge(SYMPTOM, {KILLS: "3x12"}) == [Healthy(())]


def test_lasting_stalls_are_enough() -> None:
    assert isinstance(judge(SYMPTOM, {FULL: "0x6 0.2x8"})[0], Diagnosis)


def test_a_steady_fall_says_when_memory_ends() -> None:
    (said,) = judge(SYMPTOM, {TOTAL: "1e11x40", LEFT: "3e10-6e8x40"})
    assert isinstance(said, Diagnosis)
    assert "at this rate" in said.summary


def test_a_group_full_of_page_cache_is_not_short_of_memory() -> None:
    cache = {GROUP: "1e10x30", LIMIT: "1e10x30", SOME: "0x30"}
    assert judge(SYMPTOM, cache) == [Healthy(())]


def test_a_group_full_of_processes_is() -> None:
    rss = 'gpudiag_process_resident_bytes{pid="1"}'
    (said,) = judge(SYMPTOM, {GROUP: "1e10x30", LIMIT: "1e10x30", rss: "9.1e9x30"})
    assert isinstance(said, Diagnosis)


def test_files_that_processes_map_are_no_need_where_nobody_waits() -> None:
    rss = 'gpudiag_process_resident_bytes{pid="1"}'
    calm = {GROUP: "1e10x30", LIMIT: "1e10x30", SOME: "0x30", rss: "9.9e9x30"}
    assert judge(SYMPTOM, calm) == [Healthy(())]


def test_a_full_group_alone_cannot_be_told() -> None:
    assert isinstance(judge(SYMPTOM, {GROUP: "1e10x30", LIMIT: "1e10x30"})[0], Unknown)
