from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudiag.probes import Event, Record, Sample, labels
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.kmsg import MAX_EVENTS_PER_READ, MAX_LINES_PER_READ, Kmsg, parse_record

NOW, UPTIME = 1_000_000.0, 5_000.0
XID = "NVRM: Xid (PCI:0000:b3:00): 79, pid=4242, name=python, GPU has fallen off the bus."
GPU = labels(gpu="3", uuid="GPU-3")


class Clock:
    def __init__(self) -> None:
        self.now, self.up = NOW, UPTIME

    def tick(self, seconds: float) -> None:
        self.now += seconds
        self.up += seconds


def probe(path: Path, clock: Clock | None = None, resume: str = "") -> Kmsg:
    at = clock or Clock()
    return Kmsg(
        path,
        clock=lambda: at.now,
        since_boot=lambda: at.up,
        identify={"0000:b3:00.0": GPU}.get,
        boot_id="boot",
        resume=resume,
    )


def record(seq: int, seconds: float, text: str = XID) -> str:
    return f"4,{seq},{int(seconds * 1e6)},-;{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:b3:00.0\n"


def events(records: list[Record]) -> list[Event]:
    return [r for r in records if isinstance(r, Event)]


def value(records: list[Record], metric: str) -> float:
    return next(r.value for r in records if isinstance(r, Sample) and r.metric == metric)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "kmsg"


@pytest.fixture
def writer(log: Path) -> Iterator[int]:
    os.mkfifo(log)
    fd = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    yield fd
    os.close(fd)


def test_what_was_written_before_the_start_is_read_with_its_own_time(log: Path) -> None:
    log.write_text("6,1,0,-;Linux version 6.1\n" + record(2, 4000.0))
    (event,) = events(probe(log).read())
    assert event == Event(
        NOW - 1000.0,
        "kmsg",
        XID,
        "xid",
        {
            "pci": "0000:b3:00.0",
            "code": "79",
            "pid": "4242",
            "name": "python",
            "detail": "GPU has fallen off the bus.",
            "seq": "2",
        },
    )


def test_lines_that_say_nothing_of_ours_are_no_events(log: Path) -> None:
    log.write_text(record(1, 1.0, "usb 1-1: new high-speed USB device"))
    assert events(probe(log).read()) == []


def test_a_live_line_is_seen_by_the_next_read(log: Path, writer: int) -> None:
    kmsg = probe(log)
    assert events(kmsg.read()) == []
    os.write(writer, record(7, UPTIME).encode())
    assert [e.type for e in events(kmsg.read())] == ["xid"]
    assert events(kmsg.read()) == []


def test_a_record_in_two_pieces_is_one_line(log: Path, writer: int) -> None:
    kmsg, text = probe(log), record(7, UPTIME).encode()
    os.write(writer, text[:30])
    assert events(kmsg.read()) == []
    os.write(writer, text[30:])
    assert [e.line for e in events(kmsg.read())] == [XID]


def test_the_kernels_drifting_clock_is_bounded_by_the_moment_of_reading(
    log: Path, writer: int
) -> None:
    clock = Clock()
    kmsg = probe(log, clock)
    kmsg.read()
    clock.tick(0.2)
    os.write(writer, (record(1, 1.0) + record(2, 9000.0, XID.replace("79", "48"))).encode())
    assert [e.time for e in events(kmsg.read())] == [NOW, NOW + 0.2]


def test_escaped_newlines_join_the_lines_of_one_message(log: Path) -> None:
    text = "NVRM: The NVIDIA GPU 0000:b3:00.0\\x0aNVRM: has fallen off the bus and is not"
    log.write_text(record(1, 1.0, text))
    (event,) = events(probe(log).read())
    assert (event.type, event.fields["pci"]) == ("fallen_off_bus", "0000:b3:00.0")
    assert "\n" not in event.line


@pytest.mark.parametrize(
    "junk",
    [
        b"\xff\xfe\x00garbage\n",
        b";;;\n",
        b"4,99999999999999999999,x,-;NVRM\n",
        b"\n\n",
        b"NVRM: Xid (PCI:\n",
        b"4,1,1,-;" + b"A" * 200_000 + b"\n",
        b"4,1,1,-;\\xzz\\x\n",
    ],
)
def test_a_malformed_line_stops_nothing(log: Path, junk: bytes) -> None:
    log.write_bytes(junk + record(2, 1.0).encode())
    assert [e.line for e in events(probe(log).read())] == [XID]


def test_a_line_without_a_header_happened_now(log: Path) -> None:
    log.write_text(XID + "\n")
    assert [(e.time, e.line) for e in events(probe(log).read())] == [(NOW, XID)]


def test_a_header_beyond_all_numbers_is_text() -> None:
    line = b"4," + b"9" * 5000 + b",1,-;text"
    assert parse_record(line) == (None, None, line.decode())


def test_parse_record_reads_number_and_time() -> None:
    assert parse_record(b"6,339,5140900,-,caller=T1;text") == (339, 5140900, "text")
    assert parse_record(b" SUBSYSTEM=acpi") is None


def test_every_repeat_counts_in_the_xid_counter(log: Path) -> None:
    log.write_text("".join(record(i, i) for i in range(5)))
    records = probe(log).read()
    assert value(records, "gpudiag_gpu_xid_errors_total") == 5.0
    assert value(records, "gpudiag_kmsg_repeats_total") == 4.0
    # The log is older than a minute, so the summary of the repeats follows at once.
    assert [e.fields.get("repeats") for e in events(records)] == [None, "4"]


def test_the_xid_counter_carries_the_gpus_labels(log: Path) -> None:
    log.write_text(record(1, 1.0))
    (sample,) = [r for r in probe(log).read() if isinstance(r, Sample) and "xid" in r.metric]
    assert dict(sample.labels) == {"gpu": "3", "uuid": "GPU-3", "xid": "79"}


def test_an_unknown_gpu_has_an_event_and_no_counter(log: Path) -> None:
    log.write_text(record(1, 1.0, XID.replace("b3", "aa")))
    records = probe(log).read()
    assert len(events(records)) == 1
    assert not [r for r in records if isinstance(r, Sample) and "xid" in r.metric]


def test_counters_come_every_five_seconds_and_on_a_change(log: Path, writer: int) -> None:
    clock = Clock()
    kmsg = probe(log, clock)
    assert len(kmsg.read()) == 3
    clock.tick(1.0)
    assert kmsg.read() == []
    os.write(writer, record(1, UPTIME).encode())
    assert len(kmsg.read()) == 5
    clock.tick(5.0)
    assert len(kmsg.read()) == 4


def flaky(monkeypatch: pytest.MonkeyPatch, *errors: OSError) -> None:
    pending, real = list(errors), os.read

    def read(fd: int, size: int) -> bytes:
        if pending:
            raise pending.pop(0)
        return real(fd, size)

    monkeypatch.setattr("gpudiag.probes.kmsg.os.read", read)


def test_an_overwritten_ring_is_counted_and_reading_goes_on(
    log: Path, writer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kmsg = probe(log)
    os.write(writer, record(10, 1.0).encode())
    kmsg.read()
    flaky(monkeypatch, BrokenPipeError())
    os.write(writer, record(15, 2.0, XID.replace("79", "48")).encode())
    records = kmsg.read()
    assert [e.fields["code"] for e in events(records)] == ["48"]
    assert value(records, "gpudiag_kmsg_lost_total") == 4.0


def test_a_failing_descriptor_is_said_then_opened_again_and_nothing_retold(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write_text(record(1, 1.0))
    kmsg = probe(log)
    assert len(events(kmsg.read())) == 1
    flaky(monkeypatch, OSError(19, "No such device"))
    with pytest.raises(OSError, match="No such device"):
        kmsg.read()
    log.write_text(record(1, 1.0) + record(2, 2.0, XID.replace("79", "48")))
    assert [e.fields["code"] for e in events(kmsg.read())] == ["48"]


def test_the_next_run_resumes_where_the_last_one_stopped(log: Path) -> None:
    log.write_text(record(1, 1.0))
    first = probe(log)
    first.read()
    log.write_text(record(1, 1.0) + record(2, 2.0, XID.replace("79", "48")))
    resumed = probe(log, resume=first.position)
    assert [e.fields["code"] for e in events(resumed.read())] == ["48"]


def test_another_boot_is_read_from_its_start(log: Path) -> None:
    log.write_text(record(1, 1.0))
    assert len(events(probe(log, resume="earlier/500").read())) == 1


@pytest.mark.parametrize("resume", ["boot/", "/", "nonsense", "boot/x"])
def test_a_position_that_says_nothing_reads_all(log: Path, resume: str) -> None:
    log.write_text(record(1, 1.0))
    assert len(events(probe(log, resume=resume).read())) == 1


def test_no_kernel_log_is_absent_and_says_what_to_do(log: Path) -> None:
    with pytest.raises(Unavailable, match="CAP_SYSLOG"):
        probe(log).read()


def test_one_read_takes_no_more_than_its_share(log: Path) -> None:
    log.write_text("".join(f"6,{i},1,-;x\n" for i in range(MAX_LINES_PER_READ * 2)))
    kmsg = probe(log)
    kmsg.read()
    assert MAX_LINES_PER_READ < int(kmsg.position.split("/")[1]) < MAX_LINES_PER_READ * 1.5


def test_a_flood_of_different_faults_is_cut_and_counted(log: Path) -> None:
    kills = MAX_EVENTS_PER_READ + 10
    log.write_text(
        "".join(record(i, 1.0, f"Out of memory: Killed process {i} (a)") for i in range(kills))
    )
    records = probe(log).read()
    assert len(events(records)) == MAX_EVENTS_PER_READ
    assert value(records, "gpudiag_kmsg_dropped_total") == 10.0


def test_half_a_million_lines_cost_seconds_and_no_memory(log: Path) -> None:
    line = "4,{},1000,-;NVRM: Xid (PCI:0000:b3:00): 13, pid={}, name=python, Graphics Exception\n"
    log.write_text("".join(line.format(i, 4000 + i % 8) for i in range(500_000)))
    kmsg, started = probe(log), time.process_time()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while not kmsg.position.endswith("/499999"):
        records = kmsg.read()
    # Measured at 1.8 s on one core; twice the budget of 3 s leaves room for a busy machine.
    assert time.process_time() - started < 6.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 * 1024
    assert value(records, "gpudiag_gpu_xid_errors_total") == 500_000.0


def test_close_gives_the_descriptor_back(log: Path) -> None:
    log.write_text(record(1, 1.0))
    kmsg, before = probe(log), len(os.listdir("/proc/self/fd"))
    kmsg.read()
    kmsg.close()
    assert len(os.listdir("/proc/self/fd")) == before
