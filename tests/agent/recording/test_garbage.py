"""Files that were cut, mixed up or made with malice end in a message, never in a traceback."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from gpudiag.agent.recording import incident, meta, openmetrics
from gpudiag.probes.errors import UsageError

SEED = 7
ROUNDS = 300
PIECES = [
    *(b"x999999", b"{", b"]", b": ", b"\n", b"_x9 ", b"stale", b"&a ", b"*a ", b'"', b"\t", b"\0"),
    *(b"!!python/object/apply:os.system ", b"<<: ", b"nan", b"1e999", b"\xff", b"# EOF\n", b" # {"),
]

INCIDENT = b"""title: x
interval: 10s
input_series:
- {series: 'm{a="1"}', values: '0+1x5 _ stale'}
events:
- {at: 5s, source: kmsg, line: 'NVRM: Xid', rank: 0}
expect:
- {symptom: gpu-xid, cause: [xid-79], subject: {uuid: a}, by: 2m}
quiet: ['*']
"""
METRICS = (
    b'# TYPE m gauge\nm{a="1"} 5 100.5\nm{a="1"} 6 101\nn_total 1e9 100 # {a="b"} 1 2\n# EOF\n'
)
META = b'{\n "version": 1,\n "start": 1.5,\n "quiet": ["*"]\n}\n'


def _mixed_up(text: bytes, chance: random.Random) -> bytes:
    mixed = bytearray(text)
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(mixed))
        piece = chance.choice(PIECES)
        mixed[at : at + chance.choice((0, 1, 10))] = piece if chance.random() < 0.8 else b""
    return bytes(mixed)


def _incident(text: bytes) -> object:
    return incident.parse(text.decode("utf-8", "replace"))


def _metrics(text: bytes) -> object:
    return openmetrics.read(io.BytesIO(text), "f")


def _meta(text: bytes) -> object:
    return meta.parse(text.decode("utf-8", "replace"), "f")


@pytest.mark.parametrize(
    ("text", "read"), [(INCIDENT, _incident), (METRICS, _metrics), (META, _meta)]
)
def test_garbage_is_a_usage_error(text: bytes, read: Callable[[bytes], object]) -> None:
    read(text)
    chance = random.Random(SEED)
    for _ in range(ROUNDS):
        with suppress(UsageError):
            read(_mixed_up(text, chance))
