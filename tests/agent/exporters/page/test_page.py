"""The page tells the person on call what is wrong, how we know and what to do."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import unquote

import msgspec
import pytest

from gpudiag.agent import pages
from gpudiag.agent.exporters.page.page import Page
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.probes import labels
from gpudiag.probes.catalog import symptoms
from tests.agent.exporters.client import Client
from tests.agent.exporters.fake_view import HOT, NOW, FakeView, bare


def words(view: FakeView) -> str:
    """What a reader sees: the page without its tags, white space run together."""
    html = re.sub(r"<(style|script|title)[^>]*>.*?</\1>", "", Page(Snapshots(view)).whole())
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


@pytest.mark.parametrize(
    "fact",
    [
        "gpudiag on n1",
        "llama",
        "dry run: says what it would do, changes nothing",
        "2 things are wrong",
        "GPU 3 is too hot and runs at 58 % of the clock of its peers.",
        "thermal throttle , almost certain (93%)",
        "(8 min)",
        "GPU clock (sm) 1.16 GHz expected &gt;= 1.9 GHz",
        "Clock of the SMs or of the memory now.",
        "Not power brake : no power brake reason was active",
        "drain Check fans and airflow of the slot; move the job meanwhile.",
        "Explained by this: 1 more",
        "Rank 3 is slower than its peers.",
        "the kernel log of the minute before",
        "Over: 1",
        "Partly blind: kmsg fails; 1 symptom cannot be told",
        "may not read /dev/kmsg: run as root or add CAP_SYSLOG",
        "fabric manager down cannot be told; it needs gpudiag_gpu_fabric_state",
        "Not on this machine: infiniband (no InfiniBand on this machine)",
        "88 °C (-1 to slowdown)",
        "limited by hw thermal",
        "XID 63 ×2",
        "NVLink 3/4",
        "/scratch: 27.9 GiB free (97% full)",
    ],
)
def test_says(view: FakeView, fact: str) -> None:
    assert fact in words(view)


def test_the_worst_comes_first(view: FakeView) -> None:
    text = words(view)
    assert text.index("GPU 5 reported XID 999") < text.index("GPU 3 is too hot")


def test_a_folded_finding_is_not_counted_but_stands_when_its_explainer_is_gone(
    view: FakeView,
) -> None:
    view.found = [f for f in view.found if f.symptom != "thermal-throttle"]
    assert "Explained by" not in words(view)
    assert "2 things are wrong" in words(view)


def test_nothing_wrong_says_what_is_watched(empty: FakeView) -> None:
    text = words(empty)
    assert "Nothing known is wrong" in text
    assert "this host through 13 series from host" in text
    assert "No GPU reports anything on this node." in text


def test_without_any_source_nothing_is_called_fine(empty: FakeView) -> None:
    empty.states = [replace(empty.states[0], ok=False, detail="no /proc")]
    assert "Nothing can be said" in words(empty)
    assert "Nothing known is wrong" not in words(empty)


def test_mere_information_is_not_wrong(view: FakeView) -> None:
    view.found = [msgspec.structs.replace(view.found[1], severity="info")]
    assert "Nothing known is wrong" in words(view)
    assert "Good to know: 1" in words(view)


def test_silent_inputs_are_admitted(view: FakeView) -> None:
    view.found = [msgspec.structs.replace(view.found[1], stale_since=NOW - 120)]
    assert "Its inputs have been silent for 2 min" in words(view)


def test_a_replay_says_so_and_counts_from_its_start(view: FakeView) -> None:
    view.info = replace(view.info, replay=True)
    view.time = 135.0
    text = words(view)
    assert "This is a recording played back" in text
    assert "0:02:15 into the recording" in text


def test_a_replay_says_how_far_it_is_and_when_it_stands_still(view: FakeView) -> None:
    view.info = replace(view.info, replay=True, started=0.0, replay_until=900.0)
    view.time = 330.0
    assert "5 of 15 min of the recording so far." in words(view).replace("\xa0", " ")
    view.time = 900.0
    assert "It has ended after 15 min: its last moment stands still here." in words(view)


def test_the_row_of_a_gpu_links_to_the_card_of_its_finding(view: FakeView) -> None:
    html = Page(Snapshots(view)).whole()
    row = html[html.index("<tbody>") :]
    (target,) = re.findall(r'href="#([^"]+)">▲ Warning: thermal throttle', row)
    assert f'<article id="{unquote(target)}"' in html


def test_a_folded_finding_is_one_line_until_opened(view: FakeView) -> None:
    html = Page(Snapshots(view)).whole()
    (line,) = re.findall(r'<details class="folded[^>]*>\s*<summary>.*?</summary>', html)
    assert "Rank 3 is slower than its peers." in line
    assert " open" not in line


def test_what_is_not_reported_is_a_dash(view: FakeView) -> None:
    view.readings = [r for r in view.readings if r[0] == "gpudiag_gpu_info"]
    assert Page(Snapshots(view)).whole().count('title="not reported"') == 8 * 6


def test_a_gpu_that_fell_silent_keeps_its_row_and_its_number(view: FakeView) -> None:
    page = Page(Snapshots(view))
    page.fragment()
    view.readings = [r for r in view.readings if ("uuid", HOT) not in r[1]]
    view.version += 1
    assert page.fragment().count("reports nothing any more") == 1
    assert "<dd>GPU 3</dd>" in page.fragment()


def test_a_busy_gpu_at_its_power_limit_is_not_alarming(view: FakeView) -> None:
    capped = labels(uuid=HOT, gpu="3", reason="power_cap")
    clock = labels(uuid=HOT, gpu="3", clock="sm")
    view.readings = [
        ("gpudiag_gpu_throttle_active", capped, NOW, 1.0),
        ("gpudiag_gpu_clock_hertz", clock, NOW, 1.9e9),
    ]
    html = Page(Snapshots(view)).whole()
    assert "limited by power cap" in html
    assert "worrying" not in html


def test_nothing_is_loaded_from_elsewhere(client: Client) -> None:
    pages = "".join(client.get(p).text for p in ("/", "/static/style.css", "/static/page.js"))
    assert not re.search(r"(?:https?:)?//[a-z]", pages)


def test_every_reference_of_the_page_is_answered(client: Client) -> None:
    links = set(re.findall(r'(?:href|src)="([^"#]+)', client.get("/").text))
    assert {"/static/style.css", "/static/page.js", "/metrics"} <= links
    missing = {link for link in links if client.get(link).status_code != 200}
    assert {link for link in missing if not link.startswith("/runbooks/")} == set()


def test_the_index_of_runbooks_is_linked_and_leads_to_each(client: Client) -> None:
    assert 'href="/runbooks/"' in client.get("/").text
    index = client.get("/runbooks/").text
    assert symptoms()["thermal-throttle"].title in index
    links = re.findall(r'href="(/runbooks/[^"]+)"', index)
    assert len(links) == len(pages.names()) + len(["/runbooks/pictures/"])
    assert all(client.get(link).status_code == 200 for link in links)


EVIL = "<img src=x onerror=alert(1)>\"'"


def test_hostile_text_is_shown_as_text(view: FakeView) -> None:
    hot = view.found[1]
    evidence = (msgspec.structs.replace(hot).evidence[0],)
    evil = replace(evidence[0], name=EVIL, value=EVIL, expected=EVIL, labels={"x": EVIL})
    view.found[1] = msgspec.structs.replace(
        hot, summary=EVIL, cause=EVIL, subject=(("job", EVIL),), evidence=(evil,), missing=(EVIL,)
    )
    view.info = replace(view.info, node=EVIL, job=EVIL)
    view.readings.append(
        ("gpudiag_gpu_xid_errors_total", labels(uuid=EVIL, gpu=EVIL, xid=EVIL), NOW, 1.0)
    )
    view.states[1] = replace(view.states[1], name=EVIL, detail=EVIL)
    assert "<img" not in Page(Snapshots(view)).whole()


def test_no_inline_code_or_style_that_the_policy_would_stop(client: Client) -> None:
    html = client.get("/").text
    assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?! src=)", html)


def test_one_snapshot_is_rendered_once(view: FakeView) -> None:
    page = Page(Snapshots(view))
    assert page.fragment() is page.fragment()


def test_asset_outside_the_list_is_not_served(client: Client) -> None:
    assert client.get("/static/page.py").status_code == 404
    assert client.get("/static/..%2fapp.py").status_code == 404


def test_bare_node_has_no_blind_banner() -> None:
    assert "Partly blind" not in words(bare())
