"""`gpudiag status` against a replay that is served."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import PATIENCE, free_port, wait_for

DEMO = Path(__file__).parents[2] / "incidents" / "demo.yaml"
FOUND = {"gpu-xid", "thermal-throttle", "ecc-uncorrectable"}


def gpudiag(*words):
    command = [sys.executable, "-m", "gpudiag.agent", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def symptoms(address):
    lines = gpudiag("status", "--agent", address, "--json").stdout.splitlines()
    return {json.loads(line)["symptom"] for line in lines}


@pytest.fixture(scope="module")
def agent():
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "gpudiag.agent", "agent", "--replay", str(DEMO)]
    process = subprocess.Popen([*command, "--speed", "2000", "--listen", address])
    wait_for(lambda: symptoms(address) == FOUND, 30)
    yield address
    process.terminate()
    process.wait(PATIENCE)


def test_it_says_whose_and_when_and_that_it_is_a_replay(agent):
    said = gpudiag("status", "--agent", agent).stdout
    assert "into the recording, actions: dry-run" in said
    assert "A recording played back" in said
    assert "since 4m50s into the recording" in said


def test_what_is_folded_stands_under_its_cause_with_what_it_adds(agent):
    lines = gpudiag("status", "--agent", agent).stdout.splitlines()
    folded = next(n for n, line in enumerate(lines) if "explains ecc-uncorrectable" in line)
    assert "Restart the application that was hit" in lines[folded + 1]


def test_findings_at_or_above_a_severity_decide_the_exit_code(agent):
    assert gpudiag("status", "--agent", agent).returncode == 1
    assert gpudiag("status", "--agent", agent, "--fail-on", "critical").returncode == 1


def test_json_is_a_finding_a_line(agent):
    assert symptoms(agent) == FOUND


def test_a_moment_before_anything_fired(agent):
    assert (
        "Nothing fired then."
        in gpudiag("status", "--agent", agent, "--at", "1970-01-01T00:01Z").stdout
    )


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--since", "1"], "not a duration"),
        (["--at", "yesterday"], "is not a time"),
        (["--since", "1h", "--at", "2026-01-01"], "ask one"),
    ],
)
def test_a_question_that_cannot_be_asked_is_a_usage_error(agent, words, why):
    done = gpudiag("status", "--agent", agent, *words)
    assert (done.returncode, why in done.stderr) == (2, True)


def test_no_agent_is_one_line():
    done = gpudiag("status", "--agent", f"127.0.0.1:{free_port()}")
    assert done.returncode == 3
    assert done.stderr.startswith("gpudiag: no agent answers at")
    assert done.stderr.count("\n") == 1
