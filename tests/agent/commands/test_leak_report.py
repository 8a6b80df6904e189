from __future__ import annotations

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.agent.analysis.memory.seam import played
from tests.allocsim.snapshot import dump
from tests.browser import WIDTHS, as_wide_as, browser, console, reachable, tabbed
from tests.tools import needs

GPUDIAG = (sys.executable, "-I", "-m", "gpudiag.agent", "leak-report")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*GPUDIAG, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "120"},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The snapshots of one rank that leaks and of one that does not."""
    made = tmp_path_factory.mktemp("snapshots")
    for rank, name in ((0, "variable_lengths"), (3, "growing_cat")):
        case, _ = played(name)
        for step, plain in zip(case.steps, case.snapshots, strict=True):
            dump(plain, made / f"rank{rank}_step{step}.pickle")
    return made


def test_the_first_screen_has_verdict_evidence_and_next_step(folder):
    done = run(folder)
    screen = "\n".join(done.stdout.splitlines()[:24])
    assert done.returncode == 1
    assert screen.startswith("LEAK  90% sure, rank 3")
    assert "llm/eval.py:44 collect keeps what it allocates: +64.0 KiB per step" in screen
    assert "gpudiag runbook 'memory-slow-growth#log-or-cache-buffers'" in screen
    assert "how we know" in screen
    assert done.stderr == ""


def test_json_has_what_the_schema_says(folder):
    made = json.loads(run(folder, "--json").stdout)
    leak = made["parts"][0]["growth"][0]
    assert (made["version"], made["verdict"]["kind"]) == (1, "leak")
    assert (leak["site"]["line"], leak["by"], leak["leaks"]) == (44, "size", True)
    assert {part["rank"] for part in made["parts"]} == {0, 3}
    assert made["parts"][0]["snapshot"]["composition"]["parameters"]["bytes"] > 0


def test_a_rank_is_chosen_by_its_path(folder):
    done = run(folder, "--rank", "0", "--json")
    assert [part["rank"] for part in json.loads(done.stdout)["parts"]] == [0]
    assert done.returncode == 0


def test_a_rank_that_no_path_names_is_a_usage_error(folder):
    done = run(folder, "--rank", "7")
    assert done.returncode == 2
    assert done.stderr == "gpudiag: no file names rank 7: the paths tell of ranks [0, 3]\n"


def test_top_bounds_the_rows(folder):
    made = json.loads(run(folder, "--json", "--top", "2").stdout)
    assert len(made["parts"][0]["snapshot"]["sites"]) == 2


def test_the_difference_of_two_is_shown(folder):
    done = run(folder / "rank3_step8.pickle", folder / "rank3_step58.pickle", "--diff", "--json")
    first = json.loads(done.stdout)["diff"][0]
    assert (first["site"]["line"], first["change"]) == (44, "grew")
    assert first["after"] - first["before"] == 50 * 64 * 1024


def test_the_time_to_oom_needs_the_capacity(folder):
    assert "are left: gone after" in run(folder, "--capacity", "1GiB").stdout
    assert "are left: gone after" not in run(folder).stdout


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v or "" for k, v in attrs if k in ("src", "href")]


def test_the_page_needs_nothing_but_itself(folder, tmp_path):
    run(folder, "--html", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text("utf-8")
    page = _Page()
    page.feed(text)
    assert page.links == []
    assert "script" not in page.tags
    assert "url(" not in text
    for drawing in ("by category", "per call site", "blocks by age", "Segments by address"):
        assert drawing in text


@needs("chromedriver", "chromium-driver")
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_is_read_on_a_desk_and_on_a_phone_and_by_keys(folder, tmp_path, width):
    run(folder, "--html", tmp_path / "report.html")
    with browser(tmp_path / "profile", width) as driver:
        driver.get((tmp_path / "report.html").as_uri())
        assert console(driver) == []
        assert as_wide_as(driver) == width
        expected = reachable(driver)
        assert expected
        assert tabbed(driver, len(expected)) == [(element, True) for element in expected]


def test_what_is_no_snapshot_is_one_line_and_two(tmp_path):
    (tmp_path / "a.pickle").write_bytes(b"")
    done = run(tmp_path / "a.pickle")
    assert done.returncode == 2
    assert done.stderr == (
        "gpudiag: a.pickle is empty: the process died before it wrote the snapshot\n"
    )


def test_a_census_names_the_holder(folder, tmp_path):
    holders = [{"name": "seen", "kind": "attribute", "file": "eval.py", "line": 44, "count": 1}]
    (tmp_path / "census.json").write_text(json.dumps({"holders": holders}))
    done = run(folder, "--census", tmp_path / "census.json")
    assert "attribute `seen` in eval.py:44 holds 1 tensors" in done.stdout


def test_one_snapshot_without_history_cannot_tell(tmp_path):
    case, _ = played("kv_pool")
    plain = {**case.last, "device_traces": []}
    assert run(dump(plain, tmp_path / "a.pickle")).returncode == 3


def test_names_of_functions_cannot_write_markup_into_the_page(tmp_path):
    frame = {"filename": "/a/<b>.py", "line": 1, "name": "<script>alert(1)</script>"}
    block = {"size": 512, "requested_size": 4, "state": "active_allocated", "frames": [frame]}
    segment = {"address": 0, "total_size": 512, "blocks": [block]}
    run(dump([segment], tmp_path / "a.pickle"), "--html", tmp_path / "a.html")
    assert "<script>" not in (tmp_path / "a.html").read_text("utf-8")
