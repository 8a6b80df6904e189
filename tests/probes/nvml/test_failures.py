"""What the driver does wrong, and what the probe makes of it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpudiag.probes import reader
from tests.probes.nvml.conftest import HASTE, Start
from tests.probes.nvml.watch import Watch
from tests.running import PATIENCE
from tests.simdriver.state import SimDriver, uuid_of

OLDER: tuple[str, ...] = (
    "MemoryInfo",
    "PowerUsage",
    "TemperatureThreshold",
    "GpuFabricInfo",
    "NvLinkState",
)
OLDER += ("CurrentClocksThrottleReasons", "NvLinkErrorCounter")
UNKILLABLE: dict[str, Any] = {"kill": lambda pid, number: None, "deadline": HASTE}


def test_hanging_call_makes_everything_absent_and_says_so(hasty: Watch, sim: SimDriver) -> None:
    sim.delay("nvmlDeviceGetUtilizationRates", 6000, gpu=5)
    hasty.until(hasty.has("nvml_wedged", 1))
    present = {name for (name, _), value in hasty.newest.items() if not math.isnan(value)}
    assert present == {"gpudiag_nvml_wedged", "gpudiag_gpus_expected"}
    (event,) = hasty.told("nvml_wedged")
    assert event.fields["uuid"] == uuid_of(5)
    assert "has not answered" in event.line


def test_no_second_child_while_the_first_cannot_die(start: Start, sim: SimDriver) -> None:
    watch = start(**UNKILLABLE)
    watch.until(watch.has("nvml_up", 1))
    pid, inits = watch.probe.pid, sim.calls()["nvmlInitWithFlags"]
    sim.delay("nvmlDeviceGetMemoryInfo_v2", 6000)
    watch.until(watch.has("nvml_wedged", 1))
    watch.for_seconds(1.0)
    assert watch.probe.pid == pid
    assert sim.calls()["nvmlInitWithFlags"] == inits
    sim.delay("nvmlDeviceGetMemoryInfo_v2", 0)
    watch.until(watch.has("nvml_wedged", 0))
    assert watch.probe.pid == pid
    assert watch.get("gpu_memory_used_bytes", gpu="0") == 64424509440
    assert len(watch.told("nvml_wedged")) == len(watch.told("nvml_recovered")) == 1


def test_wedged_lasts_until_a_new_child_reads_again(hasty: Watch, sim: SimDriver) -> None:
    pid = hasty.probe.pid
    sim.delay("nvmlDeviceGetMemoryInfo_v2", 6000)
    hasty.until(lambda: hasty.probe.pid not in (pid, None))
    hasty.for_seconds(0.5)
    assert hasty.get("nvml_wedged") == 1, "a killed and restarted child is no recovery"
    assert len(hasty.told("nvml_wedged")) == 1
    sim.delay("nvmlDeviceGetMemoryInfo_v2", 0)
    hasty.until(hasty.has("nvml_wedged", 0))
    hasty.until(hasty.has("gpu_memory_used_bytes", 64424509440, gpu="0"))


def test_close_does_not_wait_for_a_call_that_hangs(start: Start, sim: SimDriver) -> None:
    watch = start(**UNKILLABLE)
    watch.until(watch.has("nvml_up", 1))
    pid = watch.probe.pid
    sim.delay("nvmlDeviceGetMemoryInfo_v2", 6000)
    watch.for_seconds(0.2)
    watch.probe.close()
    assert watch.probe.pid is None
    os.kill(pid or 0, signal.SIGKILL)


def test_init_that_hangs_has_its_own_deadline(start: Start, sim: SimDriver) -> None:
    sim.delay("nvmlInit", 6000)
    began = time.monotonic()
    watch = start(deadline=0.2, start_deadline=1.0)
    watch.until(watch.has("nvml_wedged", 1))
    assert time.monotonic() - began >= 1.0


def test_lost_gpu_alone_goes_absent(running: Watch, sim: SimDriver) -> None:
    sim.lose(3)
    running.until(running.has("gpu_lost", 1, gpu="3"))
    running.until(running.has("gpus", 7))
    assert running.get("gpu_temperature_celsius", gpu="3", sensor="core") is None
    assert running.get("gpu_info", uuid=uuid_of(3)) is None
    assert running.get("gpu_temperature_celsius", gpu="2", sensor="core") == 58
    assert running.get("gpus_expected") == 8
    event = running.told("gpu_code")[0]
    assert (event.fields["uuid"], event.fields["code"]) == (uuid_of(3), "15")


def test_lost_gpu_comes_back(running: Watch, sim: SimDriver) -> None:
    sim.lose(3)
    running.until(running.has("gpus", 7))
    sim.restore(3)
    running.until(running.has("gpus", 8))
    running.until(running.has("gpu_lost", 0, uuid=uuid_of(3)))
    assert running.get("gpu_temperature_celsius", uuid=uuid_of(3), sensor="core") == 58


def test_lost_handle_is_not_used_again(running: Watch, sim: SimDriver) -> None:
    sim.count(1)
    running.until(running.has("gpus", 1))
    sim.lose(0)
    running.until(running.has("gpus", 0))
    before = sim.calls()["nvmlDeviceGetMemoryInfo_v2"]
    running.for_seconds(0.5)
    assert sim.calls()["nvmlDeviceGetMemoryInfo_v2"] == before


def test_count_shrinks(running: Watch, sim: SimDriver) -> None:
    sim.remove(2)
    running.until(running.has("gpus", 7))
    assert running.get("gpus_expected") == 8
    assert running.get("gpu_lost", uuid=uuid_of(2)) == 1
    assert running.get("gpu_temperature_celsius", uuid=uuid_of(2), sensor="core") is None
    running.until(running.has("gpu_temperature_celsius", 58, uuid=uuid_of(7), gpu="6"))
    running.until(lambda: running.get("gpu_temperature_celsius", uuid=uuid_of(7), gpu="7") is None)


def test_gpu_appears(start: Start, sim: SimDriver) -> None:
    sim.count(2)
    watch = start()
    watch.until(watch.has("gpus", 2))
    sim.count(3)
    watch.until(watch.has("gpus", 3))
    assert watch.get("gpus_expected") == 3


def test_expected_comes_from_outside_too(start: Start, sim: SimDriver) -> None:
    sim.count(7)
    watch = start(expected=8)
    watch.until(watch.has("gpus", 7))
    assert watch.get("gpus_expected") == 8
    sim.count(8)
    watch.until(watch.has("gpus", 8))


def test_init_fails_then_succeeds(start: Start, sim: SimDriver) -> None:
    sim.error("nvmlInit", 9)
    watch = start()
    watch.until(watch.has("nvml_return_code", 9))
    assert watch.get("nvml_up") == 0
    assert "kernel driver is not loaded" in watch.told("nvml_code")[0].line
    sim.error("nvmlInit", 0)
    watch.until(watch.has("nvml_up", 1))
    assert watch.get("nvml_return_code") == 0
    assert watch.get("gpus") == 8


def test_version_mismatch_needs_a_new_process(running: Watch, sim: SimDriver) -> None:
    pid = running.probe.pid
    sim.error("*", 18).error("nvmlInit", 18)
    running.until(running.has("nvml_return_code", 18))
    assert running.get("nvml_up") == 0
    assert running.get("driver_info", nvml="570.124.06") == 1
    assert running.get("gpu_memory_used_bytes", gpu="0") is None
    sim.error("*", 0).error("nvmlInit", 0)
    running.until(running.has("nvml_up", 1))
    assert running.probe.pid != pid


def test_unknown_error_after_working_is_the_agents_own(running: Watch, sim: SimDriver) -> None:
    sim.error("*", 999).error("nvmlInit", 999)
    running.until(running.has("nvml_return_code", 999))
    event = running.told("nvml_code")[-1]
    assert event.fields == {"code": "999", "trouble": "agent"}
    assert "GPUs are not at fault" in event.line
    assert running.get("gpu_lost", gpu="0") is None


def test_unknown_error_of_one_gpu(running: Watch, sim: SimDriver) -> None:
    sim.error("*", 999, gpu=6)
    running.until(running.has("gpus", 7))
    assert running.get("gpu_lost", gpu="6") is None, "unreadable is not lost"
    assert running.get("gpu_temperature_celsius", gpu="6", sensor="core") is None
    assert running.get("nvml_up") == 1


def test_reset_required_is_said(running: Watch, sim: SimDriver) -> None:
    sim.error("*", 16, gpu=1)
    running.until(lambda: bool(running.told("gpu_code")))
    assert running.told("gpu_code")[0].fields["code"] == "16"


@pytest.mark.parametrize("code", [3, 4, 25, 999])
def test_every_optional_call_refused(start: Start, sim: SimDriver, code: int) -> None:
    keep = {"nvmlDeviceGetCount_v2", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID"}
    keep |= {"nvmlInitWithFlags", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3"}
    sim.count(1)
    watch = start()
    watch.until(watch.has("gpus", 1))
    older = {f"nvmlDeviceGet{name}" for name in OLDER}
    for name in (sim.calls().keys() | older) - keep - {"nvmlDeviceGetTemperatureV"}:
        if name.startswith(("nvmlDeviceGet", "nvmlGpm", "nvmlEvent")):
            sim.error(name, code)
    watch.probe.close()
    fresh = start()
    fresh.until(fresh.has("gpu_temperature_celsius", 58, sensor="core"))
    fresh.for_seconds(0.3)
    assert fresh.get("nvml_up") == 1
    readings = {name for name, _ in fresh.newest if name.startswith("gpudiag_gpu_")}
    kinds = {"gpudiag_gpu_temperature_celsius", "gpudiag_gpu_lost", "gpudiag_gpu_info"}
    assert readings == kinds


def test_refusals_are_remembered(start: Start, sim: SimDriver) -> None:
    sim.count(1).error("nvmlDeviceGetMarginTemperature", 3)
    watch = start()
    watch.until(watch.has("gpus", 1))
    watch.until(lambda: sim.calls()["nvmlDeviceGetTemperatureV"] > 5)
    assert sim.calls()["nvmlDeviceGetMarginTemperature"] == 1


def test_child_that_crashes_is_started_again(running: Watch) -> None:
    pid = running.probe.pid or 0
    os.kill(pid, signal.SIGSEGV)
    running.until(running.has("nvml_up", 0))
    assert running.get("gpu_memory_used_bytes", gpu="0") is None
    assert "SIGSEGV" in running.told("nvml_ended")[0].line
    running.until(running.has("nvml_up", 1))
    assert running.probe.pid != pid


def test_broken_installation_is_said(start: Start, sim: SimDriver, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError('broken')")
    env = {**os.environ, **sim.environment, "PYTHONPATH": str(tmp_path)}
    watch = start(env=env)
    watch.until(watch.has("nvml_up", 0))
    assert "exit status 1" in watch.told("nvml_ended")[0].line
    assert watch.get("nvml_return_code") is None


def test_child_ends_when_the_agent_is_killed(sim: SimDriver) -> None:
    code = (
        "import sys, time; from gpudiag.probes.nvml.probe import Nvml\n"
        "probe = Nvml(cadence=0.05)\n"
        "while not probe.pid: list(probe.read())\n"
        "print(probe.pid, flush=True)\n"
        "while True: list(probe.read()); time.sleep(0.05)"
    )
    env = {**os.environ, **sim.environment}
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as agent:
        assert agent.stdout
        child = int(agent.stdout.readline())
        while not sim.calls()["nvmlDeviceGetMemoryInfo_v2"]:
            time.sleep(0.02)
        agent.kill()
    end = time.monotonic() + PATIENCE
    while "zombie" not in _state(child):
        assert time.monotonic() < end
        time.sleep(0.02)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "reaped, no zombie"


def test_child_ends_with_the_agent(running: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_CLOSE_SECONDS", PATIENCE)
    pid = running.probe.pid
    running.probe.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid or 0, 0)
