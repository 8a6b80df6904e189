"""What the checks run, and what is left to be run by hand."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def would_run(*words):
    command = ["make", "-n", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_matrix_runs_the_hooks_tests_on_each_torch_that_is_named():
    recipe = would_run("torch-matrix", "TORCH=2.6.0 2.8.0")
    assert "for torch in 2.6.0 2.8.0;" in recipe
    assert '"torch==$torch"' in recipe
    assert "tests/probes/torch" in recipe


def test_no_check_downloads_other_releases_of_torch():
    assert "make test" in (ROOT / ".ci/run").read_text()
    assert "torch==" not in would_run("test") + would_run("test-long")
