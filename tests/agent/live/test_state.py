"""What the agent remembers: killed, restarted, with a bad disk, a bad file, a bad configuration."""

import signal
import subprocess
import sys

from tests.running import wait_for
from tests.simdriver.state import uuid_of

FALLEN = "NVRM: Xid (PCI:0000:1b:00): 79, pid=4242, name=python, GPU has fallen off the bus."


def raised(agent, symptom):
    return [(f["subject"], f["raised_at"]) for f in agent.firing(symptom)]


def fallen(agent):
    agent.kernel(FALLEN)


def test_an_xid_line_is_a_finding_at_once(start):
    """Not at the next evaluation: here that would come after the test."""
    agent = start(before="from gpudiag.agent import writer; writer.EVALUATE_SECONDS = 1e6\n")
    wait_for(lambda: agent.metric("gpudiag_gpu_info"))
    fallen(agent)
    finding = wait_for(lambda: agent.firing("gpu-xid"))[0]
    assert (finding["cause"], finding["subject"]["uuid"]) == ("xid-79", uuid_of(0))
    assert finding["severity"] == "critical"


def test_a_sigkill_loses_no_finding_and_repeats_none(start):
    agent = start()
    wait_for(lambda: agent.metric("gpudiag_gpu_info"))
    fallen(agent)
    before = wait_for(lambda: raised(agent, "gpu-xid"))
    # It is told in the log after it is on disk and shown.
    wait_for(lambda: agent.log().count("firing gpu-xid") == 1)
    agent.stop(signal.SIGKILL)
    agent.start()
    assert raised(agent, "gpu-xid") == before
    wait_for(lambda: agent.metric("gpudiag_gpu_info"))
    assert raised(agent, "gpu-xid") == before
    wait_for(lambda: agent.log().count("firing gpu-xid") >= 2)
    assert agent.log().count("firing gpu-xid") == 2, "once, and once as known from before"


def test_a_corrupted_state_file_is_moved_aside(start):
    agent = start()
    agent.stop()
    state = agent.folder / "state"
    for name in ("findings.db", "window.db"):
        (state / name).write_bytes(b"garbage" * 1000)
    agent.start()
    aside = {path.name.split(".corrupt")[0] for path in state.glob("*.corrupt-*")}
    assert aside == {"findings.db", "window.db"}
    assert agent.log().count("moved it to") >= 1


def test_a_full_disk_is_said_and_costs_no_finding(start):
    agent = start(file_limit=40_000)
    wait_for(lambda: agent.metric("gpudiag_gpu_info"))
    fallen(agent)
    assert wait_for(lambda: agent.firing("gpu-xid"))


def test_sighup_reads_the_configuration_again_and_survives_a_bad_one(start):
    agent = start()
    config = agent.folder / "config.yaml"
    config.write_text("rules:\n  gpu-xyz: {}\n")
    agent.send(signal.SIGHUP)
    wait_for(lambda: f"{config}:2: rules.gpu-xyz: no such rule" in agent.log())
    config.write_text("rules: {gpu-xid: {disabled: 'lab node'}}\nactions: {mode: 'off'}\n")
    agent.send(signal.SIGHUP)
    wait_for(lambda: "read again" in agent.log())
    wait_for(lambda: "changes of actions" in agent.log())
    assert agent.get("/healthz")


def test_two_agents_run_side_by_side(start, sim, tmp_path):
    first = start()
    other = type(first)(tmp_path, sim.environment).start()
    try:
        assert first.metric("gpudiag_build_info") == other.metric("gpudiag_build_info") == [1.0]
    finally:
        other.stop()


def test_a_taken_port_is_one_clear_line(start):
    agent = start()
    command = [
        sys.executable,
        "-m",
        "gpudiag.agent",
        "agent",
        "--listen",
        f"127.0.0.1:{agent.port}",
    ]
    env = {"GPUDIAG_STATE_DIR": str(agent.folder / "other"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 3
    assert "is another agent running?" in done.stderr


def test_a_gpu_gone_before_a_restart_is_still_known_by_its_address(start, sim):
    agent = start()
    wait_for(lambda: agent.metric("gpudiag_gpu_info"))
    fallen(agent)
    before = wait_for(lambda: raised(agent, "gpu-xid"))
    sim.remove(0)
    agent.stop()
    agent.start()
    wait_for(lambda: agent.metric("gpudiag_gpus") == [7.0])
    agent.kernel("NVRM: Xid (PCI:0000:1b:00): 62, pid=4242, name=python")
    wait_for(lambda: "'62'" in str(agent.firing("gpu-xid")))
    assert raised(agent, "gpu-xid") == before
