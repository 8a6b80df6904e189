from __future__ import annotations

from gpudiag.agent.doctor import kernel
from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line
from tests.agent.doctor.glance import NOW, absent, finding, glance, told
from tests.agent.doctor.glance import kernel as said

LOST = "NVRM: Xid (PCI:0000:3b:00): 79, pid=42, name=python, GPU has fallen off the bus."
KILLED = "NVRM: Xid (PCI:0000:3b:00): 45, pid=42, name=python, Ch 00000008"
PAGE = "NVRM: Xid (PCI:0000:3b:00): 31, pid=42, name=python, MMU Fault"


def line(look: Look, start: str) -> Line:
    return next(found for found in kernel.lines(look) if found.check.startswith(start))


def test_a_log_that_may_not_be_read_names_the_right() -> None:
    look = glance(kmsg=absent("kmsg", "cannot read the kernel log: Operation not permitted"))
    (found,) = kernel.lines(look)
    assert found.state == "unknown"
    assert "CAP_SYSLOG" in found.todo


def test_a_quiet_log() -> None:
    (found,) = kernel.lines(glance())
    assert (found.state, found.seen[:2]) == ("ok", "0 ")


def test_lines_that_were_overwritten_are_told() -> None:
    assert "12 lines were overwritten" in line(glance(told("kmsg_lost_total", 12)), "log").seen


def test_an_xid_has_meaning_and_next_step() -> None:
    found = line(glance(events=[said(LOST)]), "XID 79 on 0000:3b:00.0")
    assert found.state == "warning"
    assert "fallen off the bus" in found.seen.lower()
    assert "Drain the node" in found.todo


def test_a_consequence_is_folded_under_its_cause() -> None:
    found = line(glance(events=[said(LOST), said(KILLED)]), "XID 45")
    assert (found.state, found.todo) == ("note", "")
    assert found.seen.endswith("follows from XID 79 on the same GPU")


def test_the_cause_on_another_gpu_explains_nothing() -> None:
    elsewhere = said(LOST.replace("3b", "5c"))
    assert "follows" not in line(glance(events=[elsewhere, said(KILLED)]), "XID 45").seen


def test_an_application_fault_is_a_note() -> None:
    assert line(glance(events=[said(PAGE)]), "XID 31").state == "note"


def test_a_driver_load_since_takes_the_edge_off() -> None:
    loaded = said("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue", NOW)
    look = glance(events=[said(LOST, NOW - 60), loaded])
    assert line(look, "XID 79").state == "note"


def test_repeats_count() -> None:
    first = said(PAGE)
    again = said(PAGE)
    more = type(again)(again.time, "kmsg", again.line, "xid", {**again.fields, "repeats": "499"})
    assert line(glance(events=[first, more]), "XID 31").seen.startswith("500 x ")


def test_the_finding_makes_the_line_worse() -> None:
    look = glance(events=[said(PAGE)], findings=[finding("gpu-xid", cause="xid-31")])
    assert line(look, "XID 31").state == "critical"


def test_an_unknown_code_asks_for_nothing() -> None:
    found = line(glance(events=[said(PAGE.replace(" 31,", " 9999,"))]), "XID 9999")
    assert (found.state, found.todo) == ("note", "")
    assert "not in the catalogue" in found.seen


def test_other_facts_are_counted_by_kind_with_the_last_line() -> None:
    flaps = [said("mlx5_core 0000:5e:00.0 eth1: Link down", time) for time in (1.0, 2.0)]
    found = line(glance(events=flaps), "network links down")
    assert (found.state, found.seen[:14]) == ("note", "2 since boot, ")
    assert "eth1: Link down" in found.seen


def test_an_oom_kill_is_told() -> None:
    killed = said("Out of memory: Killed process 77 (python) total-vm:1kB, anon-rss:1kB")
    assert "(python)" in line(glance(events=[killed]), "processes killed").seen
