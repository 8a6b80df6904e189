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


FLIGHT = Path(__file__).parents[1] / "analysis/flight"
TORCHRUN = Path(__file__).parents[2] / "probes/logs/torchrun"


def test_a_folder_of_dumps_is_judged_as_a_whole() -> None:
    files = map(str, sorted(FLIGHT.glob("missing_*")))
    found = json.loads(run(*files, "--json").output)
    assert found["dumps"] == 3
    assert [one["who"] for one in found["causes"]] == ["rank 1"]


def test_several_logs_are_judged_together_and_named() -> None:
    files = [str(TORCHRUN / "error.json"), str(TORCHRUN / "console.txt")]
    found = json.loads(run(*files, "--json").output)
    assert [one["file"] for one in found["causes"]] == [files[1]]
    assert "rank 1 failed first" in found["causes"][0]["summary"]


def test_a_folder_is_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("fine\n")
    (tmp_path / "b.log").write_text("fine\nKeyError: 'x'\n")
    done = run(str(tmp_path))
    assert f"{tmp_path}/b.log:2" in done.output


def test_a_pickle_that_is_no_dump_is_told_where_to_go(tmp_path: Path) -> None:
    (tmp_path / "snapshot.pickle").write_bytes(b"\x80\x04}.")
    error = run(str(tmp_path / "snapshot.pickle")).exception
    assert isinstance(error, UsageError)
    assert "leak-report" in str(error)


def test_an_empty_folder_is_a_usage_error(tmp_path: Path) -> None:
    assert isinstance(run(str(tmp_path)).exception, UsageError)
