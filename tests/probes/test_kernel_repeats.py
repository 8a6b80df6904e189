from __future__ import annotations

from gpudiag.probes import Event
from gpudiag.probes.kernel_lines import parse
from gpudiag.probes.kernel_repeats import MAX_RUNS, Repeats, Told

XID = "NVRM: Xid (PCI:0000:b3:00): 13, pid=1, name=a, Graphics Exception"


def told(time: float, text: str = XID, seq: int | None = None) -> Told:
    fact = parse(text)
    assert fact is not None
    return Told(time, seq, text, fact)


def counts(events: list[Event]) -> list[tuple[float, str]]:
    return [(e.time, e.fields.get("repeats", "")) for e in events]


def feed(repeats: Repeats, *lines: Told) -> list[Event]:
    return [event for line in lines for event in repeats.admit(line)]


def test_the_first_passes_and_repeats_are_summed_each_minute() -> None:
    repeats = Repeats()
    events = feed(repeats, *(told(float(second)) for second in range(130)))
    assert counts(events) == [(0.0, ""), (60.0, "60"), (120.0, "60")]
    assert counts(list(repeats.due(181.0))) == [(129.0, "9")]
    assert repeats.total == 129


def test_the_same_xid_ten_minutes_apart_is_two_events() -> None:
    assert counts(feed(Repeats(), told(0.0), told(600.0))) == [(0.0, ""), (600.0, "")]


def test_repeats_still_pending_are_told_before_the_next_run() -> None:
    events = feed(Repeats(), told(0.0), told(1.0), told(600.0))
    assert counts(events) == [(0.0, ""), (1.0, "1"), (600.0, "")]


def test_no_line_is_lost_to_the_sum() -> None:
    repeats = Repeats()
    events = feed(repeats, *(told(i * 7.3) for i in range(1000)))
    events += repeats.due(1e6)
    assert sum(int(e.fields.get("repeats", "1")) for e in events) == 1000


def test_another_gpu_code_or_severity_is_another_fault() -> None:
    other = [
        XID.replace("b3", "b4"),
        XID.replace(" 13,", " 31,"),
        "NVRM: Xid (PCI:0000:b3:00): 145, RLW_CTRL Nonfatal XC0 i0 Link 1 (0x1)",
        "NVRM: Xid (PCI:0000:b3:00): 145, RLW_CTRL Fatal XC0 i0 Link 1 (0x1)",
        "NVRM: Xid (PCI:0000:b3:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (A)",
        "NVRM: Xid (PCI:0000:b3:00): 154, GPU recovery action changed from 0x1 (A) to 0x2 (B)",
    ]
    events = feed(Repeats(), *(told(0.0, text) for text in [XID, *other]))
    assert [event.line for event in events] == [XID, *other]


def test_another_process_is_the_same_fault_of_the_gpu() -> None:
    assert len(feed(Repeats(), told(0.0), told(1.0, XID.replace("pid=1", "pid=2")))) == 1


def test_the_two_lines_of_one_oom_kill_are_one_event() -> None:
    repeats = Repeats()
    lines = [
        "oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/a,task=python,pid=7,uid=0",
        "Memory cgroup out of memory: Killed process 7 (python) total-vm:1kB",
        "Memory cgroup out of memory: Killed process 8 (python) total-vm:1kB",
    ]
    events = feed(repeats, *(told(0.0, text) for text in lines)) + list(repeats.due(1e3))
    assert [event.fields["pid"] for event in events] == ["7", "8"]


def test_what_is_remembered_is_bounded() -> None:
    repeats = Repeats()
    kills = [f"Out of memory: Killed process {pid} (a)" for pid in range(MAX_RUNS + 1)]
    feed(repeats, told(0.0), told(1.0))
    events = feed(repeats, *(told(2.0, text) for text in kills))
    assert counts(events)[MAX_RUNS - 1] == (1.0, "1")


def test_a_clock_set_back_does_not_silence_the_summary() -> None:
    events = feed(Repeats(), told(7200.0), told(3600.0), told(3600.1), told(3661.0))
    assert counts(events) == [(7200.0, ""), (3600.0, "1"), (3661.0, "2")]
