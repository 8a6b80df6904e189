"""The README is true: its commands run, its table is the registry."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpudiag.probes.torch as gd
from gpudiag.agent.rules import RULES
from gpudiag.probes import catalog
from gpudiag.probes.torch import features
from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.guard import FAILURES
from tests.agent.analysis.memory.seam import played
from tests.allocsim.snapshot import dump
from tests.running import RunningAgent

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
_BEGIN, _END = "<!-- symptoms: begin -->\n", "<!-- symptoms: end -->"


def table():
    rows = ["| symptom | causes | severity | runbook |", "|---|---|---|---|"]
    for name in sorted(RULES):
        known = catalog.symptoms()[name]
        causes = "one per XID code" if name == "gpu-xid" else ", ".join(known.causes)
        page = f"[{name}.md](runbooks/{name}.md)"
        rows.append(f"| {name}: {known.title.lower()} | {causes} | {known.severity} | {page} |")
    return "\n".join(rows) + "\n"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", README.read_text(), re.M | re.S)


def commands():
    return [line for block in blocks("sh") for line in block.splitlines()]


def test_the_table_of_symptoms_is_the_registry():
    text = README.read_text()
    assert text.partition(_BEGIN)[2].partition(_END)[0] == table(), (
        "PYTHONPATH=. python tests/test_readme.py"
    )


def test_there_are_commands():
    assert len(commands()) >= 8


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    running = RunningAgent(tmp_path_factory.mktemp("agent")).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory):
    made = tmp_path_factory.mktemp("snapshots")
    case, _ = played("growing_cat")
    for step, plain in zip(case.steps, case.snapshots, strict=True):
        dump(plain, made / f"step{step}.pickle")
    return made


@pytest.mark.parametrize("command", commands())
def test_every_command_runs(command, agent, snapshots, tmp_path):
    here = command.replace("http://127.0.0.1:9440", f"http://127.0.0.1:{agent.port}")
    here = here.replace("/tmp/recording", str(tmp_path / "recording"))
    here = here.replace("/tmp/rules", str(tmp_path / "rules"))
    here = here.replace("/tmp/snapshots", str(snapshots))
    here = here.replace("--duration 3m", "--duration 2s")
    if here.startswith(("gpudiag status", "gpudiag top", "gpudiag actions")):
        here += f" --agent http://127.0.0.1:{agent.port}"
    here = here.replace("gpudiag", f"{sys.executable} -m gpudiag.agent", 1)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        here, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    # 1 is "findings": the recorded incident has some, and so may this machine.
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout


def test_the_training_script_runs():
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(batch):
        loss = model(batch[0]).sum()
        loss.backward()
        optimizer.step()
        return loss

    known = {"model": model, "optimizer": optimizer, "train": train, "save": lambda: None}
    (script,) = blocks("python")
    try:
        exec(script, {**known, "loader": DataLoader(TensorDataset(torch.ones(8, 4)))})
        assert CURRENT.session
        assert CURRENT.session.steps.count == 8
    finally:
        gd.detach()
    assert not FAILURES.counts


def test_the_releases_of_torch_are_those_the_hooks_are_made_for():
    this = version("torch").partition("+")[0]
    assert f"made for torch 2.4 to 2.13 and were run on {this}," in README.read_text()
    assert f"Made for torch 2.4 to 2.13 and run on {this};" in str(features.__doc__)


def test_every_file_it_names_exists():
    for path in re.findall(
        r"`((?:agent|probes|runbooks|deploy|tests|benchmarks)/[\w./-]+)`", README.read_text()
    ):
        if "NAME" not in path:
            assert (ROOT / path).exists(), path


if __name__ == "__main__":
    before, _, rest = README.read_text().partition(_BEGIN)
    README.write_text(before + _BEGIN + table() + _END + rest.partition(_END)[2])
