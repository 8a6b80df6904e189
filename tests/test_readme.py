"""The README is true: its commands run, its table is the registry."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpudiag.agent.rules import RULES
from gpudiag.probes import catalog
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


def commands():
    blocks = re.findall(r"^```sh\n(.*?)^```", README.read_text(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines()]


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


@pytest.mark.parametrize("command", commands())
def test_every_command_runs(command, agent, tmp_path):
    here = command.replace("http://127.0.0.1:9440", f"http://127.0.0.1:{agent.port}")
    here = here.replace("/tmp/recording", str(tmp_path / "recording"))
    here = here.replace("/tmp/rules", str(tmp_path / "rules"))
    here = here.replace("--duration 3m", "--duration 2s")
    if here.startswith("gpudiag status"):
        here += f" --agent http://127.0.0.1:{agent.port}"
    here = here.replace("gpudiag", f"{sys.executable} -m gpudiag.agent", 1)
    done = subprocess.run(
        here, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    # 1 is "findings": the recorded incident has some, and so may this machine.
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout


def test_every_file_it_names_exists():
    for path in re.findall(
        r"`((?:agent|probes|runbooks|deploy|tests)/[\w./-]+)`", README.read_text()
    ):
        if "NAME" not in path:
            assert (ROOT / path).exists(), path


if __name__ == "__main__":
    before, _, rest = README.read_text().partition(_BEGIN)
    README.write_text(before + _BEGIN + table() + _END + rest.partition(_END)[2])
