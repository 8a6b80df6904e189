import pytest

from gpudiag.agent.analysis.causes import Cause
from gpudiag.agent.analysis.log_causes import explain

XID79 = "[  100.100001] NVRM: Xid (PCI:0000:b3:00): 79, pid='<unknown>', name=<unknown>, fallen off"
XID45 = "[{}.000001] NVRM: Xid (PCI:0000:{}:00): 45, pid=1234, name=python, Ch 00000001"
XID154 = (
    "[  101.000001] NVRM: Xid (PCI:0000:b3:00): 154, GPU recovery action changed from 0x0 (None)"
    " to 0x2 (Node Reboot Required)"
)
KILLED = (
    "[ 9101.000001] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,"
    "oom_memcg=/a,task_memcg=/a,task=python,pid=4242,uid=0"
)
REFUSED = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."


def causes(*lines: str) -> list[Cause]:
    return list(explain("\n".join(lines)).causes)


def test_a_burst_is_its_cause_with_the_driver_s_verdict() -> None:
    (found,) = causes(XID79, XID45.format(101, "b3"), XID154)
    assert (found.page, found.who) == ("gpu-xid#xid-79", "0000:b3:00.0")
    assert found.rivals == (("xid-45", "a known consequence of XID 79"),)
    assert "rebooted" in found.todo


def test_bursts_apart_in_time_or_on_other_gpus_are_apart() -> None:
    lines = [XID79, XID45.format(9000, "b3"), XID45.format(101, "1b")]
    assert [one.cause for one in causes(*lines)] == ["xid-79", "xid-45", "xid-45"]


def test_an_xid_that_no_catalogue_knows_means_nothing() -> None:
    (found,) = causes("NVRM: Xid (PCI:0000:b3:00): 999, something new")
    assert (found.cause, found.severity) == ("unknown-code", "warning")
    assert found.confidence <= 0.5


def test_the_host_s_refusal_follows_from_its_oom_kill() -> None:
    first, second = causes(REFUSED, KILLED)
    assert first.who == "python (pid 4242)"
    assert second.consequence_of == "host-memory-pressure#host-memory-pressure"


@pytest.mark.parametrize(
    ("line", "symptom"),
    [
        ("[1.000001] NVRM: API mismatch: the client has the version 1", "driver-mismatch"),
        ("[1.000001] mlx5_core 0000:3b:00.0 eth2: Link down", "network-link-flapping"),
        ("[1.000001] NVRM: GPU 0000:b3:00.0: RmInitAdapter failed! (0x26:0x56)", "gpu-count-low"),
        (
            "[1.000001] python[77]: segfault at 0 ip 00007f sp 00007f error 4",
            "training-interrupted",
        ),
    ],
)
def test_other_kernel_lines(line: str, symptom: str) -> None:
    (found,) = causes(line)
    assert found.symptom == symptom
    assert found.documented
    assert found.cause in found.documented.causes


def test_other_programs_lines_are_not_the_kernel_s() -> None:
    assert causes("uploader: link is down, will retry", "step 12 loss 2.1 memory 12 GiB") == []


def test_every_cause_is_plain_data() -> None:
    (found,) = causes(XID79)
    assert found.to_json()["symptom"] == "gpu-xid"
