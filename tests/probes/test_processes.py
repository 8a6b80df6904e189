from __future__ import annotations

import os
from pathlib import Path

from gpudiag.probes import Sample, labels
from gpudiag.probes.processes import Processes, Watched, parse_fields

PROC = Path(__file__).parents[1] / "nodes" / "h100x8" / "proc"
TRAINER = Watched(4242, "trainer", "llama", "3")
PAIRS = labels(pid="4242", role="trainer", job="llama", rank="3")


def test_memory_and_switches_of_a_trainer() -> None:
    probe = Processes(lambda: [TRAINER], PROC, clock=lambda: 9.0)
    switches = "gpudiag_process_context_switches_total"
    assert list(probe.read()) == [
        Sample("gpudiag_process_resident_bytes", PAIRS, 9.0, 512 * 1024.0**2),
        Sample(switches, labels(**dict(PAIRS), kind="voluntary"), 9.0, 1500.0),
        Sample(switches, labels(**dict(PAIRS), kind="involuntary"), 9.0, 25.0),
        Sample("gpudiag_process_pss_bytes", PAIRS, 9.0, 256 * 1024.0**2),
    ]


def test_shared_memory_is_read_every_half_minute() -> None:
    moment = [100.0]
    probe = Processes(lambda: [TRAINER], PROC, monotonic=lambda: moment[0])
    counts = []
    for moment[0] in (100.0, 105.0, 129.0, 130.0):
        counts.append(len(list(probe.read())))
    assert counts == [4, 3, 3, 4]


def test_a_zombie_has_no_memory_and_one_that_is_gone_nothing() -> None:
    probe = Processes(lambda: [Watched(4243, "loader"), Watched(99999, "other")], PROC)
    found = [s for s in probe.read() if isinstance(s, Sample)]
    assert {s.metric for s in found} == {"gpudiag_process_context_switches_total"}
    assert {dict(s.labels)["pid"] for s in found} == {"4243"}


def test_an_unknown_job_is_no_label() -> None:
    probe = Processes(lambda: [Watched(4242, "server")], PROC)
    assert {name for s in probe.read() if isinstance(s, Sample) for name, _ in s.labels} == {
        "pid",
        "role",
        "kind",
    }


def test_this_process_is_readable() -> None:
    probe = Processes(lambda: [Watched(os.getpid(), "other")])
    values = {s.metric: s.value for s in probe.read() if isinstance(s, Sample)}
    assert 0 < values["gpudiag_process_pss_bytes"] <= values["gpudiag_process_resident_bytes"]


def test_lines_without_a_number_are_left_out() -> None:
    assert parse_fields("Name:\tpython\nPss: 4 kB\nrollup\n:\n") == {"Pss": 4}
