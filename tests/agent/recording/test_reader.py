from __future__ import annotations

import gzip
import io
import math
import tarfile
from pathlib import Path

import pytest

from gpudiag.agent.recording import openmetrics, reader
from gpudiag.agent.recording.expectations import Expect
from gpudiag.agent.recording.timeline import Columns
from gpudiag.probes.errors import UsageError

METRICS = '# TYPE m gauge\nm{a="1"} 5 100\nm{a="1"} 6 110\n# EOF\n'
EVENT = '{"time":105.0,"source":"kmsg","line":"x"}\n'


def _read(text: str) -> list[Columns]:
    return openmetrics.read(io.BytesIO(text.encode()), "f")


def test_series_of_odd_forms() -> None:
    text = 'a 1 2\nb{x="y z",w="# {"} +Inf 3.5\nc 1 2 # {id="4"} 9 8\nd{b="1",a="2"} NaN 1\n# EOF'
    found = [(key, times.tolist(), repr(values.tolist())) for key, times, values in _read(text)]
    assert found == [
        (("a", ()), [2.0], "[1.0]"),
        (("b", (("w", "# {"), ("x", "y z"))), [3.5], "[inf]"),
        (("c", ()), [2.0], "[1.0]"),
        (("d", (("a", "2"), ("b", "1"))), [1.0], "[nan]"),
    ]


def test_one_series_written_in_two_ways_is_one() -> None:
    ((_, times, _),) = _read('m{a="1",b="2"} 1 1\nm{b="2",a="1"} 1 2\n# EOF\n')
    assert times.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("m 5\n# EOF", "f:1: 'm 5' is no `series value timestamp`"),
        ("m 5 1\nm x 2\n# EOF", "f:2: 'm x 2' is no"),
        ("m 5 1\n\n# EOF", "f:2: '' is no"),
        ("# note\n# EOF", "f:1: '# note' is no"),
        ('m{a="1} 5 1\n# EOF', "f:1: .* is no"),
        ('m{a="x y"} 5\n# EOF', "f:1: .* is no"),
        ("m 5 1\n", "f:1: ends without # EOF: it was cut off"),
        ("m 5 1\n# EOF\nm 5 2\n", "f:3: text after # EOF"),
        ("m 5 nan\n# EOF", "f: m has a timestamp that is no time"),
        ("", "f:0: ends without # EOF"),
    ],
)
def test_garbage_is_named_with_its_line(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        _read(text)


def test_binary_garbage_is_named_with_its_line() -> None:
    with pytest.raises(UsageError, match="f:2: not UTF-8 text"):
        openmetrics.read(io.BytesIO(b"m 5 1\n\xff\xfe\n"), "f")


def test_lines_across_blocks_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmetrics, "_BLOCK", 7)
    ((_, times, values),) = _read(METRICS)
    assert (times.tolist(), values.tolist()) == ([100.0, 110.0], [5.0, 6.0])


def _folder(path: Path, **files: str) -> Path:
    for name, text in files.items():
        (path / name.replace("_", ".")).write_text(text)
    return path


def test_a_folder_with_events_and_what_it_must_give(tmp_path: Path) -> None:
    meta = '{"version": 1, "start": 90, "expect": [{"symptom": "gpu-xid", "by": "2m"}]}'
    read = reader.read(_folder(tmp_path, metrics_om=METRICS, events_jsonl=EVENT, meta_json=meta))
    assert read.expectations.expect == (Expect("gpu-xid", by=120.0),)
    assert [e.line for e in read.events] == ["x"]
    assert (read.start, read.end) == (90.0, 110.0)


def test_gzipped_metrics_are_read(tmp_path: Path) -> None:
    (tmp_path / "metrics.om.gz").write_bytes(gzip.compress(METRICS.encode()))
    assert len(reader.read(tmp_path).times) == 2


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({}, "it is no recording"),
        ({"metrics_om": METRICS, "events_jsonl": "{}\n"}, "events.jsonl:1: no event: .*`time`"),
        ({"metrics_om": METRICS, "events_jsonl": EVENT + "x\n"}, "events.jsonl:2: no event"),
        ({"metrics_om": METRICS, "meta_json": '{\n"node": 1, "x": 2}'}, "meta.json:2: x: no such"),
        ({"metrics_om": METRICS, "meta_json": '{"version": 2}'}, "meta.json:1: version: this gpu"),
        ({"metrics_om": METRICS, "meta_json": '{"start": "a"}'}, "start: must be a number"),
    ],
)
def test_a_broken_recording_is_named(tmp_path: Path, files: dict[str, str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        reader.read(_folder(tmp_path, **files))


def _archive(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def test_an_archive_is_read_by_the_last_names(tmp_path: Path) -> None:
    path = _archive(
        tmp_path / "r.tar.gz",
        ("../../etc/metrics.om", METRICS.encode()),
        ("/etc/passwd", b"x"),
        ("rec/snapshots/a.bin", b"x"),
    )
    assert len(reader.read(path).times) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["r.tar.gz"]


def test_an_archive_with_a_file_twice_is_refused(tmp_path: Path) -> None:
    member = ("metrics.om", METRICS.encode())
    with pytest.raises(UsageError, match=r"holds metrics\.om twice"):
        reader.read(_archive(tmp_path / "r.tar.gz", member, member))


def test_a_link_in_an_archive_is_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "r.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("metrics.om")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(info)
    with pytest.raises(UsageError, match="it is no recording"):
        reader.read(tmp_path / "r.tar.gz")


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b\x08" + b"\x00" * 30])
def test_a_file_that_is_no_archive_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "r.tar.gz").write_bytes(content)
    with pytest.raises(UsageError, match=r"r\.tar\.gz"):
        reader.read(tmp_path / "r.tar.gz")


def test_a_truncated_archive_is_named(tmp_path: Path) -> None:
    text = "".join(f"m {math.sin(n)} {n}\n" for n in range(5000)) + "# EOF\n"
    path = _archive(tmp_path / "r.tar.gz", ("metrics.om", text.encode()))
    path.write_bytes(path.read_bytes()[:20000])
    with pytest.raises(UsageError, match="cannot read the recording"):
        reader.read(path)


def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAX_BYTES", 1000)
    path = _archive(tmp_path / "r.tar.gz", ("metrics.om", b"m 1 1\n" * 1000))
    with pytest.raises(UsageError, match="holds more than 1000 bytes"):
        reader.read(path)


def test_a_device_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "metrics.om").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match=r"metrics\.om is a pipe or a device"):
        reader.read(tmp_path)


def test_a_spool_of_garbage_is_named(tmp_path: Path) -> None:
    (tmp_path / "series.jsonl").write_text("{}\n")
    (tmp_path / "samples.spool").write_bytes(b"garbage")
    with pytest.raises(UsageError, match="cannot read the recording"):
        reader.read(tmp_path)


def test_a_start_that_is_no_time_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"start": "NaN"}')
    (tmp_path / "metrics.om").write_text("# EOF\n")
    with pytest.raises(UsageError, match="times are seconds since 1970"):
        reader.read(tmp_path)
