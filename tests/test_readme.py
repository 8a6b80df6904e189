"""The README is true: its commands run, its table is the registry."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gpudiag.probes.torch as gd
from gpudiag.agent.actions.policy import shipped
from gpudiag.agent.rules import RULES
from gpudiag.alerts.rules import groups
from gpudiag.dashboards.registry import dashboard_of
from gpudiag.probes import catalog
from gpudiag.probes.torch import features
from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.guard import FAILURES
from tests.agent.analysis.memory.seam import played
from tests.agent.history.serving_day import last_hours
from tests.allocsim.snapshot import dump
from tests.running import RunningAgent
from tests.tools import needs

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
_BEGIN, _END = "<!-- symptoms: begin -->\n", "<!-- symptoms: end -->"


_COLUMNS = ("symptom", "causes", "severity", "alert", "runbook", "dashboard", "default action")


def table():
    rows = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    for name in sorted(RULES):
        known = catalog.symptoms()[name]
        cells = (
            f"{name}: {known.title.lower()}",
            "one per XID code" if name == "gpu-xid" else ", ".join(known.causes),
            known.severity,
            alert_of(name)["alert"],
            f"[{name}.md](runbooks/{name}.md)",
            dashboard_of(name),
            actions_of(name, known.causes),
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def alert_of(symptom):
    """The alert on the engine's own finding."""
    rules = [rule for group in groups() for rule in group["rules"]]
    (found,) = [
        rule
        for rule in rules
        if "alert" in rule and f'gpudiag_finding_active{{symptom="{symptom}"' in rule["expr"]
    ]
    return found


def actions_of(symptom, causes):
    """The steps of each ladder, the most frequent one for all other causes."""
    ladders = defaultdict(list)
    for cause in causes:
        steps = [step.action for step in shipped().ladder(symptom, cause)]
        ladders[", ".join(steps) or "people decide"].append(cause)
    *few, (rest, _) = sorted(ladders.items(), key=lambda one: len(one[1]))
    told = [f"{steps} ({', '.join(of)})" for steps, of in few]
    return "; ".join([*told, f"else {rest}" if told else rest])


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


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    running = last_hours(tmp_path_factory.mktemp("prometheus"))
    yield running
    running.stop()


def asks_prometheus(command):
    return "http://127.0.0.1:9090" in command


@needs("prometheus", "prometheus")
@pytest.mark.parametrize("command", [c for c in commands() if asks_prometheus(c)])
def test_every_command_on_a_prometheus_runs(command, agent, snapshots, prometheus, tmp_path):
    here = command.replace("http://127.0.0.1:9090", f"http://127.0.0.1:{prometheus.port}")
    test_every_command_runs(here, agent, snapshots, tmp_path)


@pytest.mark.parametrize("command", [c for c in commands() if not asks_prometheus(c)])
def test_every_command_runs(command, agent, snapshots, tmp_path):
    here = command.replace("http://127.0.0.1:9440", f"http://127.0.0.1:{agent.port}")
    here = here.replace("/tmp/recording", str(tmp_path / "recording"))
    here = here.replace("/tmp/rules", str(tmp_path / "rules"))
    here = here.replace("/tmp/snapshots", str(snapshots))
    here = here.replace("--duration 3m", "--duration 2s")
    if here.startswith(("gpudiag status", "gpudiag top", "gpudiag actions", "gpudiag findings")):
        here += f" --agent http://127.0.0.1:{agent.port}"
    here = here.replace("gpudiag", f"{sys.executable} -m gpudiag.agent", 1)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        here, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
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

    known = {"model": model, "optimizer": optimizer, "train": train}
    known |= {"save": lambda: None, "shrink": lambda factor: None}
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
