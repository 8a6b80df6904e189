import json
from pathlib import Path

from click.testing import CliRunner

from gpudiag.agent.cli import root
from gpudiag.dashboards.registry import UIDS


def test_export_writes_dashboards_that_grafana_can_import(tmp_path):
    done = CliRunner().invoke(root, ["dashboards", "export", str(tmp_path / "new")])
    assert done.exit_code == 0
    written = [json.loads(Path(path).read_text()) for path in done.output.split()]
    assert {board["uid"] for board in written} == set(UIDS)


def test_export_into_a_file_is_a_fault_of_use(tmp_path):
    (tmp_path / "file").touch()
    done = CliRunner().invoke(root, ["dashboards", "export", str(tmp_path / "file")])
    assert "cannot write into" in str(done.exception)


def test_the_runbooks_that_panels_link_to_can_be_anywhere(tmp_path):
    own = ["--runbooks", "https://pages.example/gpu"]
    done = CliRunner().invoke(root, ["dashboards", "export", str(tmp_path), *own])
    assert done.exit_code == 0
    boards = [json.loads(Path(path).read_text()) for path in done.output.split()]
    told = [
        variable["query"]
        for board in boards
        for variable in board["templating"]["list"]
        if variable["name"] == "runbooks"
    ]
    assert set(told) == {"https://pages.example/gpu"}
