import subprocess
import sys
from pathlib import Path

import click
import pytest

from gpudiag.agent import cli

GPUDIAG = [sys.executable, "-c", "from gpudiag.agent.cli import main; main()"]


def failing(monkeypatch, error):
    def fail():
        raise error

    monkeypatch.setattr(cli, "root", click.Command("gpudiag", callback=fail))
    monkeypatch.setattr(sys, "argv", ["gpudiag"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_a_fault_of_its_own_never_looks_like_a_finding(monkeypatch, capsys):
    assert failing(monkeypatch, ZeroDivisionError()) == 3
    assert "ZeroDivisionError" in (told := capsys.readouterr().err)
    assert "report it" in told


def test_a_full_disk_is_one_line_and_a_3():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*GPUDIAG, "runbook"], stdout=full, stderr=-1, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "gpudiag: [Errno 28] No space left on device\n")
