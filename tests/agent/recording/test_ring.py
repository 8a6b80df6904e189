from __future__ import annotations

from gpudiag.agent.recording.ring import Ring
from gpudiag.probes import Event, Sample

MIB = 1024**2


def _held(ring: Ring) -> list[tuple[str, float]]:
    return [
        (keys[series][0], time)
        for keys, rows, _ in ring.contents()
        for series, time, _ in rows.tolist()
    ]


def _filled(seconds: float, max_bytes: int, times: range) -> Ring:
    ring = Ring(seconds, max_bytes)
    for at in times:
        ring.add([Sample("m", (), float(at), 1.0)], [])
    return ring


def test_what_is_older_goes_a_segment_at_a_time() -> None:
    times = [time for _, time in _held(_filled(300.0, MIB, range(0, 1000, 10)))]
    assert 600.0 <= times[0] <= 690.0
    assert times == sorted(times)
    assert times[-1] == 990.0


def test_memory_is_bounded() -> None:
    ring = _filled(1e9, 2000, range(0, 100_000, 10))
    assert 0 < len(_held(ring)) < 1000


def test_a_series_that_fell_silent_is_held() -> None:
    ring = _filled(900.0, MIB, range(0, 100, 10))
    for at in range(100, 400, 10):
        ring.add([Sample("n", (), float(at), 1.0)], [])
    assert ("m", 0.0) in _held(ring)


def test_a_clock_set_back_does_not_hold_a_segment_open() -> None:
    ring = _filled(900.0, MIB, range(5000, 5010, 10))
    ring.add([Sample("m", (), 100.0, 1.0)], [])
    assert [len(rows) for _, rows, _ in ring.contents()] == [2, 0]


def test_events_are_held_up_to_a_number() -> None:
    ring = Ring(900.0, MIB)
    ring.add([], [Event(1.0, "kmsg", str(n)) for n in range(9000)])
    ((_, _, events),) = ring.contents()
    assert (len(events), events[0].line) == (5000, "0")
