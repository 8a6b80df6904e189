"""A day of three nodes that have dcgm-exporter and nothing else, asked for as a person would."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest

from gpudiag.agent.replay import fresh_engine, load, replay
from tests.agent.history.days import HOUR, Gpu, dcgm_day, write
from tests.prometheus import RunningPrometheus
from tests.tools import needs

FAULTY = [
    Gpu(0, hot=3),
    Gpu(1, xid=5),
    Gpu(2, ecc=7),
    Gpu(3, grows=8),
    Gpu(4, replays=10),
    *(Gpu(index) for index in range(5, 8)),
]
PLANTED = {
    ("thermal-throttle", "thermal-throttle", FAULTY[0].uuid),
    ("gpu-xid", "xid-94", FAULTY[1].uuid),
    ("ecc-uncorrectable", "ecc-uncorrectable", FAULTY[2].uuid),
    ("memory-slow-growth", "undetermined", FAULTY[3].uuid),
    ("pcie-degraded", "pcie-degraded", FAULTY[4].uuid),
}
SWITCHED_OFF = {
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "thermal-throttle",
    "DCGM_FI_DEV_XID_ERRORS": "gpu-xid",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "ecc-uncorrectable",
}
END = time.time() // 60 * 60
START = END - 86_400.0


def samples():
    target = {"job": "dcgm"}
    for name, more in (
        ("n1", {}),
        ("n2", {"new_names": True}),
        ("n3", {"without": SWITCHED_OFF}),
    ):
        at = target | {"instance": f"10.0.0.{name[1]}:9400"}
        yield from dcgm_day(FAULTY, start=START, node=name, target=at, **more)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("day")
    running = RunningPrometheus(folder).backfill(write(folder / "day.om", samples())).start()
    yield f"http://127.0.0.1:{running.port}"
    running.stop()


@pytest.fixture(scope="module")
def asked(server, tmp_path_factory):
    """What the command said of the day, and the folder it wrote into."""
    out = tmp_path_factory.mktemp("out")
    done = diagnose(server, "--json", "--html", str(out / "p.html"))
    assert done.returncode == 1, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], out


def diagnose(server, *options, hours=(0.0, 24.0)):
    first, last = (START + hour * HOUR for hour in hours)
    return subprocess.run(
        [
            *(sys.executable, "-m", "gpudiag.agent", "diagnose", "--prometheus", server),
            *(f"--start={first - 60.0}", f"--end={last}"),
            *options,
        ],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def named(lines, node):
    return {
        (one["symptom"], one["cause"], one["subject"]["uuid"])
        for one in lines
        if one.get("node") == node and "cause" in one
    }


@needs("prometheus", "prometheus")
@pytest.mark.parametrize("node", ["n1", "n2"])
def test_every_planted_fault_is_named_and_none_invented(asked, node):
    assert named(asked[0], node) == PLANTED


@needs("prometheus", "prometheus")
def test_each_is_raised_when_it_began(asked):
    began = {"thermal-throttle": 3, "gpu-xid": 5, "ecc-uncorrectable": 7, "pcie-degraded": 10}
    found = {
        one["symptom"]: (one["times"][0]["raised_at"] - START) / 3600.0
        for one in asked[0]
        if one.get("node") == "n1" and one.get("symptom") in began
    }
    assert found == pytest.approx(began, abs=0.2)


@needs("prometheus", "prometheus")
def test_what_was_not_recorded_is_not_guessed_and_the_field_is_named(asked):
    lines, _ = asked
    assert named(lines, "n3") == {one for one in PLANTED if one[0] not in SWITCHED_OFF.values()}
    unknown = {
        one["symptom"]: one["missing"][0]
        for one in lines
        if one.get("state") == "unknown" and one["nodes"] == ["n3"]
    }
    for field, symptom in SWITCHED_OFF.items():
        assert field in unknown[symptom]


@needs("prometheus", "prometheus")
def test_the_page_has_every_finding_with_its_curve_and_needs_nothing_else(asked):
    lines, out = asked
    page = (out / "p.html").read_text()
    assert page.count("<article") == len([one for one in lines if "cause" in one and "node" in one])
    assert len(re.findall(r'<path d="M[\d.]+ [\d.]+ L', page)) >= 5
    assert not re.search(r"(?:src|href)=|@import|url\(|<script", page)


@needs("prometheus", "prometheus")
def test_what_was_read_is_kept_as_a_recording_that_replays_alike(server, tmp_path):
    kept = ("--node", "n2", "--json", "--incident", str(tmp_path))
    lines = map(json.loads, diagnose(server, *kept, hours=(4.0, 8.0)).stdout.splitlines())
    run = replay(load(tmp_path / "n2.tar.gz"), fresh_engine())
    told = {(f.symptom, f.cause, dict(f.subject)["uuid"]) for f in run.findings()}
    assert told == named(lines, "n2") == {one for one in PLANTED if one[0][:3] in ("gpu", "ecc")}


@needs("prometheus", "prometheus")
def test_one_node_on_a_terminal(server):
    done = diagnose(server, "--node", "n3", hours=(10.0, 11.0))
    assert done.returncode == 1
    assert "1 nodes: dcgm-exporter on 1" in done.stdout
    assert "cannot tell gpu-xid on n3: switch on DCGM_FI_DEV_XID_ERRORS" in done.stdout
    assert "packets are sent again" in done.stdout


@needs("prometheus", "prometheus")
def test_a_coarser_step_finds_them_with_less(server):
    done = diagnose(server, "--node", "n1", "--step", "2m", "--json")
    assert named(map(json.loads, done.stdout.splitlines()), "n1") == PLANTED


@needs("prometheus", "prometheus")
def test_nothing_there_is_said(server):
    done = diagnose(server, "--node", "elsewhere")
    assert done.returncode == 3
    assert "without --job, --node and --namespace" in done.stderr
