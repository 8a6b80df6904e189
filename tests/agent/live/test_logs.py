"""The whole agent over logs and dumps that appear while it runs."""

import shutil
from pathlib import Path

from tests.running import wait_for

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "probes/logs/torchrun/console.txt"
FLIGHT = ROOT / "agent/analysis/flight"


def following(start, tmp_path):
    for name in ("logs", "dumps"):
        (tmp_path / name).mkdir()
    (tmp_path / "logs/old.log").write_text("KeyError: 'of yesterday'\n")
    files, dumps = f"{tmp_path}/logs/*.log", f"{tmp_path}/dumps"
    agent = start(config=f"probes: {{logs: {{files: ['{files}'], flight_recorder: '{dumps}'}}}}\n")
    wait_for(lambda: agent.metric("gpudiag_log_files") == [1.0])
    return agent


def test_a_job_s_failure_in_its_log_is_a_finding(start, tmp_path):
    agent = following(start, tmp_path)
    shutil.copy(CONSOLE, tmp_path / "logs/train.log")
    finding = wait_for(lambda: agent.firing("training-interrupted"), seconds=40)[0]
    assert finding["cause"] == "process-crash"
    assert "rank 1 ended first (exit code 1): ValueError: labels" in finding["summary"]


def test_a_hang_s_dumps_name_the_rank(start, tmp_path):
    agent = following(start, tmp_path)
    for path in FLIGHT.glob("missing_*"):
        shutil.copy(path, tmp_path / "dumps")
    finding = wait_for(lambda: agent.firing("training-interrupted"), seconds=60)[0]
    assert finding["cause"] == "hung-collective"
    assert "rank 1" in finding["summary"]
