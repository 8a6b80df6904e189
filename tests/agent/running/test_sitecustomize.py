"""The start-up file in real interpreters, over a torch and hooks of the test's own making."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpudiag.agent.running import child

AUTO = "import os\ndef install():\n    print('attached', 'torch' in __import__('sys').modules)\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with a torch, and with hooks that say that they were called."""
    hooks = tmp_path / "gpudiag/probes/torch"
    hooks.mkdir(parents=True)
    (tmp_path / "torch.py").write_text("VERSION = 3\n")
    (hooks / "auto.py").write_text(AUTO)
    return tmp_path


def python(folder, code, **environ):
    """Without the site-packages in which gpudiag itself is installed."""
    command = [sys.executable, "-S", "-c", f"import sitecustomize\n{code}"]
    given = child.environment({"PYTHONPATH": str(folder), **environ}, command, Path("/none"))
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    return done.stdout.strip(), done.stderr.strip()


def test_the_hooks_attach_once_torch_is_there(folder):
    assert python(folder, "import torch; print(torch.VERSION)") == ("attached True\n3", "")


def test_without_torch_nothing_is_loaded(folder):
    assert python(folder, "import sys; print('gpudiag' in sys.modules)") == ("False", "")


def test_switched_off_it_does_nothing(folder):
    assert python(folder, "import torch", GPUDIAG_DISABLE="1") == ("", "")


@pytest.mark.parametrize("fault", ["raise OSError('no')", "import no_such_thing", "x ="])
def test_broken_hooks_cost_a_line_and_not_the_command(folder, fault):
    (folder / "gpudiag/probes/torch/auto.py").write_text(fault)
    out, err = python(folder, "import torch; print(torch.VERSION)")
    assert out == "3"
    assert "the training goes on without them" in err


def test_the_sitecustomize_behind_it_runs_too(folder):
    (folder / "sitecustomize.py").write_text("print('theirs')\n")
    code = "import torch, sitecustomize; print(sitecustomize.__file__)"
    assert python(folder, code)[0].splitlines() == [
        "theirs",
        "attached True",
        str(folder / "sitecustomize.py"),
    ]


def test_children_of_the_command_have_it_too(folder):
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import torch'])"
    assert "attached True" in python(folder, code)[0]


def test_a_torch_that_is_not_installed_fails_as_ever(tmp_path):
    assert "No module named 'torch'" in python(tmp_path, "import torch")[1]


def test_another_interpreter_finds_the_hooks_by_their_files(tmp_path):
    (tmp_path / "torch.py").touch()
    code = "import torch, sys; print(sys.modules['gpudiag'].__path__)"
    root = Path(child.__file__).resolve().parents[2]
    out, err = python(tmp_path, code)
    assert out == str([str(root)]), err
