from __future__ import annotations

from gpudiag.agent.doctor import host
from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line
from gpudiag.probes.disks import Space
from tests.agent.doctor.glance import absent, finding, glance, told

GIB = float(2**30)
ROOM = Space(64 * GIB, 60 * GIB)


def line(look: Look, check: str, shm: Space | None = ROOM) -> Line:
    return next(found for found in host.lines(look, shm) if found.check == check)


def test_processors() -> None:
    stall = told("host_pressure_ratio", 0.25, resource="cpu", kind="some")
    found = line(
        glance(told("host_cpu_utilization_ratio", 0.5), told("host_load1", 3), stall), "processors"
    )
    assert found.seen == "50% busy, load 3.0, 25% of the time stalled on cpu"


def test_memory_and_the_rules_word_on_it() -> None:
    low = finding("host-memory-pressure", "Little is left.", severity="warning")
    figures = (
        told("host_memory_total_bytes", 8 * GIB),
        told("host_memory_available_bytes", GIB),
    )
    found = line(glance(*figures, findings=[low]), "memory")
    assert (found.state, found.seen) == ("warning", "Little is left. 1.0 of 8.0 GiB available")


def test_a_control_group_that_killed_is_noted() -> None:
    look = glance(
        told("cgroup_memory_limit_bytes", 4 * GIB, cgroup="/job"),
        told("cgroup_memory_bytes", 3 * GIB, cgroup="/job"),
        told("cgroup_oom_kills_total", 2, cgroup="/job"),
    )
    found = line(look, "control group /job")
    assert found.state == "note"
    assert found.seen == "limit 4.0 GiB, 3.0 GiB used, 2 processes killed for it"


def test_a_full_disk_is_what_the_rule_says_of_its_mount_point() -> None:
    full = finding("disk-watermark", "Full.", subject=(("mountpoint", "/data"),))
    look = glance(
        *(told("filesystem_size_bytes", 10 * GIB, mountpoint=at) for at in ("/", "/data")),
        *(told("filesystem_available_bytes", GIB, mountpoint=at) for at in ("/", "/data")),
        findings=[full],
    )
    assert (line(look, "disk /").state, line(look, "disk /data").state) == ("ok", "critical")


def test_small_shared_memory_is_noted() -> None:
    found = line(glance(), "shared memory", Space(64 * 2.0**20, 64 * 2.0**20))
    assert found.state == "note"
    assert "--shm-size" in found.todo


def test_no_shared_memory() -> None:
    assert line(glance(), "shared memory", None).state == "absent"


def test_no_proc_cannot_be_told() -> None:
    found = line(glance(host=absent("host", "no /proc to read")), "host")
    assert (found.state, found.seen) == ("unknown", "no /proc to read")
