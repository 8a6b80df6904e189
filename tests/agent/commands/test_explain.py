import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpudiag.agent.commands import explain, explaining
from gpudiag.probes.errors import GpudiagError, UsageError
from tests.agent.analysis.oom_samples import SAMPLES

OOM = SAMPLES["2.13, pools"].text
XID = "NVRM: Xid (PCI:0000:b3:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus"


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(explain.command, [*arguments], input=text)


def test_a_pipe_of_both_kinds() -> None:
    done = run("-", text=f"{OOM}\n{XID}\n")
    assert done.exit_code == 1
    assert "cause: fragmentation" in done.output
    assert "gpudiag runbook 'gpu-xid#xid-79'" in done.output


def test_json_has_every_cause(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(XID)
    found = json.loads(run(str(tmp_path / "log"), "--json").output)
    assert found["lines"] == 1
    assert [one["cause"] for one in found["causes"]] == ["xid-79"]
    assert found["causes"][0]["runbook"] == "gpudiag runbook 'gpu-xid#xid-79'"


def test_nothing_known_is_fine() -> None:
    done = run(text="all is well\n")
    assert (done.exit_code, "Nothing known in 1 lines" in done.output) == (0, True)


def test_fail_on_is_asked() -> None:
    line = "[1.000001] mlx5_core 0000:3b:00.0 eth2: Link down\n"
    assert run(text=line).exit_code == 1
    assert run("--fail-on", "critical", text=line).exit_code == 0


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_what_cannot_be_read_is_a_usage_error(name: str, tmp_path: Path) -> None:
    assert isinstance(run(str(tmp_path / name)).exception, UsageError)


def test_an_empty_log_tells_nothing() -> None:
    assert isinstance(run(text="\n \n").exception, GpudiagError)


def test_of_a_long_log_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "MAX_BYTES", 200)
    (tmp_path / "log").write_bytes(b"x\n" * 500 + b"\xff\n" + XID.encode())
    found = json.loads(run(str(tmp_path / "log"), "--json").output)
    assert found["skipped_bytes"] == 1002 + len(XID) - 200
    assert found["causes"][0]["cause"] == "xid-79"
