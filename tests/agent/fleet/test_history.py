"""Several nodes' history on a real Prometheus: judged together, and under other thresholds."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from benchmarks import fleet_faults
from benchmarks.fleet_metrics import Fleet, backfill
from gpudiag.agent.cli import root
from tests.prometheus import RunningPrometheus
from tests.tools import needs

pytestmark = [needs("prometheus", "prometheus"), needs("promtool", "prometheus")]

FLEET = Fleet(8, seconds=3600.0)
HOT = next(fault for fault in FLEET.faults if fault.kind == "hot")
JOB = fleet_faults.job_of(HOT.node)
NODE = fleet_faults.node_name(HOT.node)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("history")
    server = RunningPrometheus(folder)
    backfill(FLEET, folder, server.data)
    yield server.start()
    server.stop()


def diagnosed(server, *options):
    asked = ["--start", str(FLEET.start), "--end", str(FLEET.end), "--workers", "1"]
    url = f"http://127.0.0.1:{server.port}"
    ended = CliRunner().invoke(root, ["diagnose", "--prometheus", url, *asked, *options])
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended


@pytest.fixture(scope="module")
def lines(server):
    return [json.loads(line) for line in diagnosed(server, "--json").stdout.splitlines()]


def of(lines, symptom):
    return [one for one in lines if one.get("symptom") == symptom and "node" in one]


def test_the_slow_rank_is_named_once_with_its_hardware(lines):
    (slow,) = of(lines, "straggler")
    assert (slow["node"], slow["cause"], slow["explained_by"]) == (NODE, "gpu-throttled", "")


def test_what_other_nodes_of_the_job_make_of_their_waiting_folds_under_it(lines):
    (slow,) = of(lines, "straggler")
    echoes = of(lines, "multi-gpu-underperforms")
    assert {one["node"] for one in echoes} > {NODE}
    assert {one["explained_by"] for one in echoes} == {slow["id"]}


def test_the_job_is_told_with_what_it_lost(lines):
    (job,) = [one for one in lines if one.get("kind") == "job"]
    lasted = HOT.end - HOT.start
    assert (job["job"], job["ranks"], len(job["nodes"])) == (JOB, 32, 4)
    assert job["lost_share"] == pytest.approx(0.12 / 1.12, abs=0.02)
    assert job["lost_gpu_hours"] == pytest.approx(32 * 0.107 * lasted / 3600.0, rel=0.2)
    assert job["findings"][0]["node"] == NODE


def test_what_is_over_by_the_end_is_no_reason_to_drain(lines):
    assert NODE not in [one["node"] for one in lines if one.get("kind") == "drain"]


def test_the_screen_and_the_page_say_it_in_a_sentence(server, tmp_path):
    shown = diagnosed(server, "--html", str(tmp_path / "page.html")).stdout
    page = (tmp_path / "page.html").read_text()
    for text in (shown, page):
        assert "Across the nodes" in text
        assert f"{JOB} (32 GPUs on 4 nodes) lost 11% of each step" in text


def settings(tmp_path, text):
    file = tmp_path / "new.yaml"
    file.write_text(text)
    return "--rules", str(file), "--node", NODE


def backtest(server, tmp_path, text):
    ended = diagnosed(server, *settings(tmp_path, text), "--json")
    assert ended.exit_code == 0
    return {one["symptom"]: one for one in map(json.loads, ended.stdout.splitlines())}


def test_a_higher_threshold_raises_less_and_the_examples_say_what(server, tmp_path):
    found = backtest(server, tmp_path, "rules: {straggler: {thresholds: {floor: 0.3}}}")
    one = found["straggler"]
    assert (one["now"]["raised"], one["then"]["raised"]) == (1, 0)
    (dropped,) = one["dropped"]
    assert dropped["node"] == NODE
    assert HOT.start < dropped["raised_at"] - FLEET.start < HOT.start + 600.0


def test_what_the_straggler_explained_is_raised_in_its_place(server, tmp_path):
    found = backtest(server, tmp_path, "rules: {straggler: {disabled: to see}}")
    assert found["multi-gpu-underperforms"]["added"]
    assert not found["multi-gpu-underperforms"]["changed"]


def test_a_longer_hold_raises_the_same_finding_later(server, tmp_path):
    found = backtest(server, tmp_path, "rules: {straggler: {hold: 5m}}")
    one = found["straggler"]
    assert one["added"] == one["dropped"] == []
    assert one["earlier_seconds"] == pytest.approx(-300.0, abs=60.0)


def test_settings_that_change_nothing_are_told_with_equal_counts(server, tmp_path):
    found = backtest(server, tmp_path, "rules: {straggler: {thresholds: {floor: 0.07}}}")
    one = found["straggler"]
    assert one["now"] == one["then"]
    assert one["added"] == one["dropped"] == []
    assert found.keys() == {"straggler"}


def test_the_table_shows_both_counts(server, tmp_path):
    shown = diagnosed(server, *settings(tmp_path, "rules: {straggler: {thresholds: {floor: 0.3}}}"))
    row = next(line for line in shown.stdout.splitlines() if line.startswith("straggler  "))
    assert row.split()[1:3] == ["1", "0"]
    assert "floor=0.3" in row


@pytest.mark.parametrize(
    ("text", "said"), [("rules: {}", "no rule is changed"), ("rules: {strag: {}}", "no such rule")]
)
def test_a_file_that_changes_nothing_is_refused(server, tmp_path, text, said):
    url = f"http://127.0.0.1:{server.port}"
    asked = ["diagnose", "--prometheus", url, *settings(tmp_path, text)]
    ended = CliRunner().invoke(root, asked)
    assert said in str(ended.exception)
