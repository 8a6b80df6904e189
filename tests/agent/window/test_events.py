from gpudiag.agent.window.events import MAX_EVENTS, MAX_UNSAVED, Events
from gpudiag.probes import Event


def test_too_many_events_push_the_oldest_out() -> None:
    events = Events()
    for n in range(MAX_EVENTS + 5):
        events.add(Event(float(n), "kmsg", ""))
    assert events.between(0.0, 1e9, "", "")[0].time == 5.0
    assert len(events.unsaved) == MAX_UNSAVED


def test_events_leave_after_two_days() -> None:
    events = Events()
    events.add(Event(0.0, "kmsg", "old"))
    events.add(Event(10.0, "kmsg", "new"))
    events.expire(48 * 3600.0 + 5.0)
    assert [e.line for e in events.between(0.0, 1e9, "", "")] == ["new"]


def test_a_restored_event_answers_for_one_telling_only() -> None:
    events = Events()
    events.restore([Event(100.0, "kmsg", "line")], 160.0)
    for time in (100.4, 101.0, 150.0):
        events.add(Event(time, "kmsg", "line"))
    assert [e.time for e in events.between(0.0, 1e9, "", "")] == [100.0, 101.0, 150.0]


def test_a_talkative_log_does_not_push_out_what_the_kernel_said() -> None:
    events = Events()
    events.add(Event(0.0, "kmsg", "Xid"))
    for n in range(MAX_EVENTS + 5):
        events.add(Event(float(n), "log:trainer", "step"))
    assert [e.line for e in events.between(0.0, 1e9, "kmsg", "")] == ["Xid"]


def test_events_of_all_sources_come_in_the_order_of_their_times() -> None:
    events = Events()
    for time, source in ((1.0, "kmsg"), (3.0, "kmsg"), (2.0, "log:a"), (4.0, "log:b")):
        events.add(Event(time, source, ""))
    assert [e.time for e in events.between(0.0, 1e9, "", "")] == [1.0, 2.0, 3.0, 4.0]
    assert [e.time for e in events.between(0.0, 1e9, "log:b", "")] == [4.0]
