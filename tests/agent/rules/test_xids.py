from gpudiag.agent.rules._gpus import gpu
from gpudiag.agent.rules._xids import read
from gpudiag.agent.window import Window
from gpudiag.probes import Event


def test_the_drivers_own_word_counts_where_the_kernel_log_has_none() -> None:
    window = Window(())
    fields = {"uuid": "GPU-1", "gpu": "1", "xid": "62"}
    window.add([], [Event(5.0, "nvml", "Xid (PCI:0000:3b:00): 62", "xid", fields)])
    window.now = 6.0
    (sighting,) = read(window, 60.0).seen[gpu("GPU-1")]
    assert (sighting.code, sighting.time) == (62, 5.0)


def test_an_xid_that_driver_and_kernel_both_tell_is_one() -> None:
    window = Window(())
    fields = {"uuid": "GPU-1", "gpu": "1", "xid": "62"}
    line = "NVRM: Xid (PCI:0000:3b:00): 62, pid=1, name=python"
    kernel = Event(5.5, "kmsg", line, "xid", {"uuid": "GPU-1"})
    window.add([], [Event(5.0, "nvml", "Xid (PCI:0000:3b:00): 62", "xid", fields), kernel])
    window.now = 6.0
    assert [s.line for s in read(window, 60.0).seen[gpu("GPU-1")]] == [line]


def test_the_same_xid_ten_minutes_later_is_a_second_event() -> None:
    window = Window(())
    line = "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=python"
    fields = {"uuid": "GPU-1"}
    window.add([], [Event(time, "kmsg", line, "xid", fields) for time in (5.0, 605.0)])
    window.now = 606.0
    assert [s.time for s in read(window, 3600.0).seen[gpu("GPU-1")]] == [5.0, 605.0]
