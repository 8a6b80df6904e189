"""XID events from the driver."""

from __future__ import annotations

from tests.probes.nvml.conftest import Start
from tests.probes.nvml.watch import Watch
from tests.simdriver.state import SimDriver, uuid_of


def test_xid_is_worded_as_the_kernel_words_it(running: Watch, sim: SimDriver) -> None:
    sim.xid(1, 79)
    running.until(lambda: bool(running.told("xid")))
    (event,) = running.told("xid")
    assert event.line == "Xid (PCI:0000:3b:00): 79"
    assert event.source == "nvml"
    assert event.fields == {"uuid": uuid_of(1), "gpu": "1", "xid": "79"}


def test_same_xid_twice_is_two_events(running: Watch, sim: SimDriver) -> None:
    sim.xid(1, 31)
    running.until(running.has("gpu_xid_errors_total", 1, gpu="1", xid="31"))
    sim.xid(1, 31).xid(2, 31)
    running.until(running.has("gpu_xid_errors_total", 2, gpu="1", xid="31"))
    running.until(running.has("gpu_xid_errors_total", 1, gpu="2", xid="31"))
    assert len(running.told("xid")) == 3


def test_count_survives_a_new_child(running: Watch, sim: SimDriver) -> None:
    sim.xid(1, 31)
    running.until(running.has("gpu_xid_errors_total", 1, gpu="1"))
    sim.error("*", 18)
    running.until(running.has("nvml_up", 0))
    sim.error("*", 0)
    running.until(running.has("nvml_up", 1))
    sim.xid(1, 31)
    running.until(running.has("gpu_xid_errors_total", 2, gpu="1", xid="31"))


def test_instance_of_a_partitioned_gpu(running: Watch, sim: SimDriver) -> None:
    sim.xid(0, 43, instance=7)
    running.until(lambda: bool(running.told("xid")))
    assert running.told("xid")[0].fields["gpu_instance"] == "7"


def test_event_does_not_wait_for_the_next_read(start: Start, sim: SimDriver) -> None:
    watch = start(cadence=6000)
    watch.until(watch.has("nvml_up", 1))
    sim.xid(4, 48)
    watch.until(lambda: bool(watch.told("xid")))


def test_set_that_fails_does_not_spin(start: Start, sim: SimDriver) -> None:
    sim.error("nvmlEventSetWait_v2", 15)
    watch = start()
    watch.until(watch.has("nvml_up", 1))
    watch.for_seconds(0.5)
    assert sim.calls()["nvmlEventSetWait_v2"] == 1
    assert watch.get("nvml_up") == 1


def test_gpu_that_cannot_be_registered_is_left_out(start: Start, sim: SimDriver) -> None:
    sim.error("nvmlDeviceRegisterEvents", 999, gpu=0)
    watch = start()
    watch.until(watch.has("nvml_up", 1))
    sim.xid(0, 13).xid(5, 13)
    watch.until(watch.has("gpu_xid_errors_total", 1, gpu="5"))
    assert watch.get("gpu_xid_errors_total", gpu="0") is None
