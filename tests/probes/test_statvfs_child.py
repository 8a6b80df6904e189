from __future__ import annotations

import json
from pathlib import Path

from gpudiag.probes.disks import Space
from gpudiag.probes.frames import split
from gpudiag.probes.statvfs_child import ANSWER, ASKING, one_round

MOUNTS = (Path(__file__).parents[1] / "nodes/h100x8/proc/self/mountinfo").read_text()


def answer(point: str) -> Space | None:
    if point == "/lustre":
        raise OSError(116, "Stale file handle")
    return Space(10.0, 4.0)


def told(last: list[str]) -> list[tuple[int, str]]:
    out = bytearray()
    one_round(MOUNTS, last, out.extend, answer)
    return [(frame.kind, frame.payload.decode()) for frame in split(out)]


def test_only_network_mounts_are_asked_and_each_is_named_before() -> None:
    asked = [text for kind, text in told([]) if kind == ASKING]
    assert sorted(asked) == ["/lustre", "/mnt/s3", "/shared"]
    assert told([])[0][0] == ASKING


def test_a_mount_that_refuses_does_not_hide_the_others() -> None:
    answers = [json.loads(text) for kind, text in told([]) if kind == ANSWER]
    assert sorted(answers) == [["/mnt/s3", 10.0, 4.0], ["/shared", 10.0, 4.0]]


def test_what_hung_before_is_asked_last() -> None:
    asked = [text for kind, text in told(["/lustre", "/mnt/s3"]) if kind == ASKING]
    assert asked[0] == "/shared"
