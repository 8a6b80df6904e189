"""Every release's keys and every file form give the same answer."""

from __future__ import annotations

import gzip
import json
import pickle

import msgspec
import pytest

from gpudiag.agent.analysis.memory.isolated import digest_file
from tests.agent.analysis.memory.seam import digested, judged
from tests.allocsim.leaks import kept_graph

RELEASES = [(2, 1), (2, 2), (2, 3), (2, 5), (2, 8), (2, 10), (2, 12), (2, 13)]


@pytest.mark.parametrize("release", RELEASES)
def test_a_series_of_any_release_tells_the_leak(release):
    case = kept_graph(version=release)
    named = zip(case.steps, case.snapshots, strict=True)
    part = judged([digested(plain, f"step{step}.pickle") for step, plain in named])
    assert part.verdict.kind == "leak"
    rate = sum(growth.rate for growth in part.growth if growth.leaks)
    assert rate == pytest.approx(case.truth.per_step, rel=0.05)


@pytest.mark.parametrize("release", RELEASES)
def test_one_snapshot_of_any_release_is_no_more_sure_than_it_may_be(release):
    part = judged([digested(kept_graph(version=release).last)])
    # Before 2.5 no annotation tells the steps: the recording is only cut evenly.
    assert part.verdict.kind in ({"leak"} if release >= (2, 5) else {"leak", "cannot tell"})
    assert part.verdict.confidence <= (0.9 if release >= (2, 5) else 0.75)


@pytest.fixture(scope="module")
def plain():
    return kept_graph().last


def test_json_and_gzip_say_what_the_pickle_says(plain, tmp_path):
    forms = {
        "a.pickle": pickle.dumps(plain, 4),
        "a.json": json.dumps(plain).encode(),
        "a.pkl.gz": gzip.compress(pickle.dumps(plain), 1),
    }
    found = []
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
        found.append(msgspec.structs.replace(digest_file(tmp_path / name), name=""))
    assert found[0] == found[1] == found[2]


def test_a_bare_list_of_segments_has_composition_and_no_growth(plain):
    part = judged([digested(plain["segments"])])
    assert part.verdict.kind == "cannot tell"
    assert part.device.live == judged([digested(plain)]).device.live


def test_devices_of_one_file_are_judged_apart(plain):
    segments = [{**s, "device": 1, "blocks": list(s["blocks"])} for s in plain["segments"]]
    two = {**plain, "segments": [*plain["segments"], *segments]}
    found = digested({**two, "device_traces": [plain["device_traces"][0], []]})
    assert [device.device for device in found.devices] == [0, 1]
    assert found.devices[1].entries == 0
