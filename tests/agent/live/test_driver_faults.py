"""The whole agent over the simulated driver, when the driver misbehaves."""

import json

import psutil

from tests.running import SLOWER, wait_for
from tests.simdriver.state import uuid_of

TEMPERATURE = "gpudiag_gpu_temperature_celsius"


def all_gpus(agent):
    return len(agent.metric(TEMPERATURE, sensor="core")) == 8


def nvml_children(agent):
    children = psutil.Process(agent.process.pid).children()
    return [child for child in children if "gpudiag.probes.nvml" in cmdline(child)]


def cmdline(child):
    """Empty for one that has ended meanwhile."""
    try:
        return child.cmdline()
    except psutil.NoSuchProcess:
        return []


def test_a_driver_call_that_hangs_blinds_the_gpus_and_nothing_else(start, sim):
    agent = start()
    wait_for(lambda: all_gpus(agent))
    sim.delay("nvmlDeviceGetUtilizationRates", 6000)
    finding = wait_for(lambda: agent.firing("nvml-wedged"), seconds=30)[0]
    assert finding["runbook"].startswith("nvml-wedged")
    wait_for(lambda: agent.metric(TEMPERATURE) == [])
    assert agent.metric("gpudiag_host_load1")
    assert len(nvml_children(agent)) <= 1
    sim.delay("nvmlDeviceGetUtilizationRates", 0)
    wait_for(lambda: all_gpus(agent), seconds=40)


def test_sigterm_ends_it_while_a_call_hangs(start, sim):
    agent = start()
    wait_for(lambda: all_gpus(agent))
    sim.delay("nvmlDeviceGetUtilizationRates", 6000)
    wait_for(lambda: agent.metric("gpudiag_nvml_wedged") == [1.0], seconds=20)
    # Five seconds on a machine at rest; one that waited for the call would not end at all.
    assert agent.stop() < 5 * SLOWER


def test_a_lost_gpu_is_named_and_the_others_go_on(start, sim):
    agent = start()
    wait_for(lambda: all_gpus(agent))
    sim.lose(3)
    finding = wait_for(lambda: agent.firing("gpu-lost"), seconds=60)[0]
    assert finding["subject"]["uuid"] == uuid_of(3)
    wait_for(lambda: len(agent.metric(TEMPERATURE, sensor="core")) == 7)


def test_seven_gpus_of_eight_are_missed_even_over_a_restart(start, sim):
    agent = start()
    wait_for(lambda: all_gpus(agent))
    sim.remove(5)
    wait_for(lambda: agent.metric("gpudiag_gpus") == [7.0], seconds=30)
    agent.stop()
    agent.start()
    wait_for(lambda: agent.metric("gpudiag_gpus") == [7.0])
    wait_for(lambda: agent.metric("gpudiag_gpus_expected") == [8.0])
    assert wait_for(lambda: agent.firing("gpu-count-low"), seconds=90)


def test_a_driver_that_comes_up_late_is_found(start, sim):
    sim.error("nvmlInit", 9)
    agent = start()
    wait_for(lambda: agent.metric("gpudiag_nvml_up") == [0.0])
    sim.error("nvmlInit", 0)
    wait_for(lambda: all_gpus(agent), seconds=45)


def test_library_and_driver_that_differ_are_told_apart_from_a_fault(start, sim):
    sim.error("nvmlInit", 18)
    agent = start()
    assert wait_for(lambda: agent.firing("driver-mismatch"), seconds=90)


def test_unknown_error_after_a_good_start_is_the_agents_own_trouble(start, sim):
    agent = start()
    wait_for(lambda: all_gpus(agent))
    sim.error("*", 999)
    wait_for(lambda: agent.metric(TEMPERATURE) == [], seconds=40)
    blamed = {f["symptom"] for f in agent.firing()}
    assert not blamed & {"gpu-lost", "gpu-count-low", "gpu-xid", "driver-reset-required"}


def test_scrapes_cost_the_driver_nothing(start, sim):
    agent = start()
    wait_for(lambda: all_gpus(agent))
    before = sim.calls()["nvmlDeviceGetUtilizationRates"]
    reads = agent.metric("gpudiag_probe_last_success_timestamp_seconds", probe="nvml")
    for _ in range(100):
        agent.get("/metrics")
    after = sim.calls()["nvmlDeviceGetUtilizationRates"]
    elapsed = agent.metric("gpudiag_probe_last_success_timestamp_seconds", probe="nvml")[0]
    assert after - before <= 8 * 2 * (elapsed - reads[0] + 2)


def test_no_gpu_is_said_and_the_rest_goes_on(start, sim):
    sim.error("nvmlInit", 12)
    agent = start()

    def blind():
        probes = {p["name"]: p for p in json.loads(agent.get("/api/v1/probes"))["probes"]}
        return not probes["nvml"]["available"]

    wait_for(blind)
    wait_for(lambda: agent.metric("gpudiag_host_load1"))
    wait_for(lambda: "no NVIDIA driver here" in agent.get("/"))
