from gpudiag.agent.retold import Retold
from gpudiag.probes import Event

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."


def test_a_kernel_line_remembered_is_not_told_again():
    retold = Retold([Event(100.0, "kmsg", XID)])
    assert retold.fresh([Event(100.9, "kmsg", XID)]) == []


def test_the_same_line_ten_minutes_later_is_news():
    later = Event(700.0, "kmsg", XID)
    assert Retold([Event(100.0, "kmsg", XID)]).fresh([later]) == [later]


def test_each_remembered_line_hides_one_only():
    again = Event(101.0, "kmsg", XID)
    retold = Retold([Event(100.0, "kmsg", XID)])
    assert retold.fresh([Event(100.0, "kmsg", XID), again]) == [again]


def test_other_sources_pass():
    line = Event(100.0, "nvml", XID)
    assert Retold([Event(100.0, "nvml", XID)]).fresh([line]) == [line]
