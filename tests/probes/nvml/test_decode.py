from __future__ import annotations

import io
import json
from typing import Any

from gpudiag.probes import Sample, labels
from gpudiag.probes.frames import Frame, split
from gpudiag.probes.nvml.decode import Decoder
from gpudiag.probes.nvml.series import key
from gpudiag.probes.nvml.wire import KEYS, VALUES, Readings, Writer

A, B = key("gpu_power_watts"), key("gpu_clock_hertz", clock="sm")
NAME = {"uuid": "GPU-1", "gpu": "0"}
OF_A = ("gpudiag_gpu_power_watts", labels(**NAME))
OF_B = ("gpudiag_gpu_clock_hertz", labels(**NAME, clock="sm"))


def frames(*reads: dict[Any, float]) -> list[Frame]:
    pipe = io.BytesIO()
    writer = Writer(pipe)
    for time, read in enumerate(reads):
        got = Readings()
        for series, value in read.items():
            got.add(series, value)
        writer.readings(4, NAME, float(time), got)
    return split(bytearray(pipe.getvalue()))


def test_keys_are_sent_only_when_they_change() -> None:
    kinds = [frame.kind for frame in frames({A: 1}, {A: 2}, {A: 3, B: 4}, {A: 5, B: 6})]
    assert kinds == [KEYS, VALUES, VALUES, KEYS, VALUES, VALUES]


def test_values_meet_their_keys() -> None:
    decoder = Decoder()
    keys, first, second = frames({A: 1.5, B: 2}, {A: 3, B: 4})
    assert decoder.keys(_json(keys)) == []
    assert decoder.values(first.payload) == [Sample(*OF_A, 0, 1.5), Sample(*OF_B, 0, 2)]
    assert decoder.values(second.payload)[1] == Sample(*OF_B, 1, 4)


def test_series_that_a_set_lost() -> None:
    decoder = Decoder()
    both, _, fewer, _ = frames({A: 1, B: 2}, {A: 1})
    decoder.keys(_json(both))
    assert decoder.keys(_json(fewer)) == [OF_B]


def test_series_that_did_not_come_back_after_another_look() -> None:
    decoder = Decoder()
    both, _, fewer, _ = frames({A: 1, B: 2}, {A: 1})
    decoder.keys(_json(both))
    decoder.begin()
    assert decoder.keys(_json(fewer)) == []
    assert decoder.settle() == [OF_B]
    assert decoder.settle() == []


def test_all_and_drop() -> None:
    decoder = Decoder()
    decoder.keys(_json(frames({A: 1, B: 2})[0]))
    assert decoder.all() == decoder.all() == sorted([OF_A, OF_B])
    assert decoder.drop() == sorted([OF_A, OF_B])
    assert decoder.all() == []


def _json(frame: Frame) -> dict[str, Any]:
    return dict(json.loads(frame.payload))
