from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from gpudiag.probes import Record, Sample
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.host import Host, parse_cpu, parse_meminfo, parse_pressure

NODES = Path(__file__).parents[1] / "nodes"
NOW = 1_000.0


def lines(records: Iterable[Record]) -> list[str]:
    found = []
    for sample in records:
        assert isinstance(sample, Sample)
        pairs = ",".join(f"{name}={value}" for name, value in sample.labels)
        found.append(f"{sample.metric.removeprefix('gpudiag_')}{{{pairs}}} {sample.value:g}")
    return sorted(found)


def node(name: str, pids: Iterable[int] = ()) -> Host:
    return Host(NODES / name / "proc", NODES / name / "sys", clock=lambda: NOW, pids=lambda: pids)


def test_a_node_with_all_there_is() -> None:
    assert lines(node("h100x8").read()) == [
        "cgroup_memory_bytes{cgroup=/system.slice/gpudiag.service} 4.2e+07",
        "cgroup_oom_kills_total{cgroup=/system.slice/gpudiag.service} 0",
        "host_load1{} 12.5",
        "host_memory_available_bytes{} 1.9456e+12",
        "host_memory_total_bytes{} 2.16426e+12",
        "host_pressure_ratio{kind=full,resource=io} 0.1",
        "host_pressure_ratio{kind=full,resource=memory} 0.0025",
        "host_pressure_ratio{kind=some,resource=cpu} 0.0125",
        "host_pressure_ratio{kind=some,resource=io} 0.2",
        "host_pressure_ratio{kind=some,resource=memory} 0.005",
        "host_uptime_seconds{} 864000",
    ]


def test_no_pressure_and_no_cgroup_v2() -> None:
    assert lines(node("bare").read()) == [
        "cgroup_memory_bytes{cgroup=/slurm/job_7} 600000",
        "cgroup_memory_limit_bytes{cgroup=/slurm/job_7} 1e+06",
        "cgroup_oom_kills_total{cgroup=/slurm/job_7} 1",
        "host_load1{} 0.1",
        "host_memory_total_bytes{} 4.096e+06",
        "host_uptime_seconds{} 60",
    ]


def test_no_proc_at_all_is_absent(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="/proc"):
        Host(tmp_path, tmp_path).read()


def use(tmp_path: Path, before: str, after: str) -> list[float]:
    shutil.copytree(NODES / "bare", tmp_path, dirs_exist_ok=True)
    host = Host(tmp_path / "proc", tmp_path / "sys")
    (tmp_path / "proc/stat").write_text(before)
    host.read()
    (tmp_path / "proc/stat").write_text(after)
    return [s.value for s in host.read() if isinstance(s, Sample) and "cpu" in s.metric]


def test_cpu_use_is_of_the_time_between_two_reads(tmp_path: Path) -> None:
    assert use(tmp_path, "cpu 10 0 10 80 0 0 0 0", "cpu 40 0 10 130 20 0 0 0") == [0.3]


def test_cpu_use_is_absent_while_the_counter_stands(tmp_path: Path) -> None:
    assert use(tmp_path, "cpu 10 0 10 80 0 0 0 0", "cpu 10 0 10 80 0 0 0 0") == []


def test_cpu_use_never_leaves_its_range(tmp_path: Path) -> None:
    assert use(tmp_path, "cpu 10 0 10 80 0 0 0 0", "cpu 20 0 10 79 0 0 0 0") == [1.0]


def test_guest_time_is_not_counted_twice() -> None:
    assert parse_cpu("cpu  100 0 0 100 0 0 0 0 50 0\ncpu0 1") == (100.0, 200.0)


@pytest.mark.parametrize("text", ["", "cpu 1 2", "garbage\n"])
def test_no_cpu_line_is_absent(text: str) -> None:
    assert parse_cpu(text) is None


def test_meminfo_rows_without_a_unit_are_no_sizes() -> None:
    assert parse_meminfo("MemTotal: 2 kB\nHugePages_Total: 0\nx\n") == {"MemTotal": 2048.0}


def test_pressure_is_a_ratio() -> None:
    assert parse_pressure("some avg10=50.00 avg60=1 avg300=1 total=1\njunk") == {"some": 0.5}


def test_a_read_of_this_machine_is_cheap() -> None:
    host = Host()
    host.read()
    started = time.process_time()
    for _ in range(50):
        host.read()
    assert (time.process_time() - started) / 50 < 0.002
    host.close()
