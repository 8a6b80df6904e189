import sys

import pytest
from click.testing import CliRunner

from gpudiag.agent.commands.run import command


def run(*words):
    return CliRunner().invoke(command, ["--socket", "/none/agent.sock", "--", *words])


@pytest.mark.parametrize("code", [0, 1, 42])
def test_it_ends_as_the_command_ends(code):
    assert run(sys.executable, "-c", f"raise SystemExit({code})").exit_code == code


@pytest.mark.parametrize(("name", "code"), [("true", 0), ("false", 1), ("no-such-command", 127)])
def test_commands_are_looked_up_as_a_shell_would(name, code):
    assert run(name).exit_code == code


def test_a_command_that_a_signal_ended():
    assert run(sys.executable, "-c", "import os; os.kill(os.getpid(), 15)").exit_code == 143


def test_a_command_that_is_not_there(tmp_path):
    done = run(str(tmp_path / "none"))
    assert done.exit_code == 127
    assert "command not found" in done.output


def test_a_command_that_cannot_be_executed(tmp_path):
    (tmp_path / "data").touch()
    assert run(str(tmp_path / "data")).exit_code == 126


def test_the_commands_own_options_are_left_to_it(capfd):
    run(sys.executable, "-c", "import sys; print(sys.argv[1:])", "--job", "x", "--help")
    assert "['--job', 'x', '--help']" in capfd.readouterr().out
