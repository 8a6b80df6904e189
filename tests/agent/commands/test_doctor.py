from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpudiag.agent import probing
from gpudiag.agent.commands.doctor import command
from gpudiag.probes import Probe
from gpudiag.probes.errors import GpudiagError
from gpudiag.probes.host import Host
from tests.simdriver.state import SimDriver

NODES = Path(__file__).parents[2] / "nodes"


def over(monkeypatch: pytest.MonkeyPatch, *probes: Probe) -> None:
    monkeypatch.setattr(probing, "build", lambda *_: list(probes))


def run(*options: str) -> Result:
    return CliRunner().invoke(command, ["--for", "100ms", *options], catch_exceptions=False)


def doctor(environment: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, "-c", "from gpudiag.agent.cli import main; main()", "doctor"]
    env = {**os.environ, **environment}
    return subprocess.run([*call, *options], env=env, capture_output=True, text=True, check=False)


def test_the_whole_command_over_a_driver_as_json(sim: SimDriver) -> None:
    done = doctor(sim.environment, "--for", "1s", "--json", "--fail-on", "critical")
    told = json.loads(done.stdout)
    gpus = [line for line in told["lines"] if line["area"] == "gpu"]
    assert len(gpus) == 8
    # Only of the machine that runs this test may there be something to say.
    assert not [found for found in told["findings"] if "uuid" in found["subject"]]
    assert not [line for line in gpus if line["state"] == "critical"]
    grave = [found for found in told["findings"] if found["severity"] == "critical"]
    grave += [line for line in told["lines"] if line["state"] == "critical"]
    assert done.returncode == (1 if grave else 0), told


def test_a_driver_that_hangs_ends_the_command_in_time_with_1(sim: SimDriver) -> None:
    sim.delay("*", 6000)
    done = doctor(sim.environment, "--for", "1s", "--deadline", "6s")
    assert "NVML does not answer" in done.stdout
    assert done.returncode == 1


def test_text_has_areas_states_and_a_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    root = NODES / "h100x8"
    over(monkeypatch, Host(root / "proc", root / "sys"))
    done = run()
    assert "HOST\n  ok          processors:" in done.output
    assert "Nothing known is wrong" in done.output
    assert done.exit_code == 0


def test_the_kernels_log_does_not_wait_for_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "KMSG", NODES / "h100x8/kmsg")
    told = json.loads(run("--for", "500ms", "--json").output)
    assert "XID 94 on 0000:b3:00.0" in {line["check"] for line in told["lines"]}


def test_no_probe_that_could_read_is_said_with_3(monkeypatch: pytest.MonkeyPatch) -> None:
    over(monkeypatch, Host(Path("/nowhere"), Path("/nowhere")))
    with pytest.raises(GpudiagError, match="no probe could read") as error:
        run()
    assert error.value.exit_code == 3


def test_a_span_without_unit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    over(monkeypatch)
    with pytest.raises(GpudiagError) as error:
        run("--deadline", "5")
    assert error.value.exit_code == 2


def test_a_manifest_is_saved_and_compared(tmp_path):
    path = str(tmp_path / "m.json")
    saved = CliRunner().invoke(command, ["--save", path])
    assert saved.exit_code == 0
    assert "packages" in saved.output
    assert CliRunner().invoke(command, ["--compare", path]).exit_code == 0
    text = (tmp_path / "m.json").read_text().replace('"msgspec": "', '"msgspec": "9')
    (tmp_path / "m.json").write_text(text)
    differing = CliRunner().invoke(command, ["--compare", path])
    assert differing.exit_code == 1
    assert "package msgspec differs: was 9" in differing.output


def test_weights_are_checked(tmp_path):
    (tmp_path / "model-00001-of-00002.bin").write_bytes(b"x")
    done = CliRunner().invoke(command, ["--weights", str(tmp_path), "--sha256", "--json"])
    assert done.exit_code == 1
    (line,) = json.loads(done.output)["lines"]
    assert (line["state"], line["check"]) == ("critical", "model-00002-of-00002.bin")
