"""Every expression gives data on a real Prometheus that holds replayed incidents."""

import re
import time

import pytest

from tests.dashboards.boards import BOARDS, NAMES, questions, substituted
from tests.dashboards.recorded import SPAN, filled, record
from tests.tools import needs

pytestmark = [needs("prometheus", "prometheus"), needs("promtool", "prometheus")]
BY_NAME = dict(zip(NAMES, BOARDS, strict=True))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    return record(tmp_path_factory.mktemp("recorded"), float(int(time.time()) - 600))


@pytest.fixture(scope="module")
def prometheus(recorded, tmp_path_factory):
    running = filled(recorded, tmp_path_factory.mktemp("prometheus"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def ask(prometheus, recorded):
    """The series of an expression with Grafana's variables at All, or as chosen."""

    def one(expr, *, now=False, **chosen):
        plain = substituted(expr, **chosen)
        if now:
            return prometheus.at(plain, recorded.end - 15)
        return prometheus.over(plain, recorded.end - SPAN, recorded.end, 60)

    return one


@pytest.mark.parametrize("name", NAMES)
def test_every_expression_gives_data(ask, name):
    empty = [
        (where, expr) for where, expr, now in questions(BY_NAME[name]) if not ask(expr, now=now)
    ]
    assert empty == []


def expression(name, where):
    return next(expr for title, expr, _ in questions(BY_NAME[name]) if title == where)


def test_choosing_a_gpu_leaves_that_one(ask):
    found = ask(expression("gpudiag-node", "Temperature A"), gpu="GPU-3", node="demo")
    assert {series["metric"]["gpu"] for series in found} == {"3"}


def test_the_gpu_variable_shows_the_index_and_chooses_by_uuid(ask):
    variable = next(v for v in BY_NAME["gpudiag-node"]["templating"]["list"] if v["name"] == "gpu")
    query = variable["query"].removeprefix("query_result(").removesuffix(")")
    pattern = variable["regex"].strip("/").replace("(?<", "(?P<")
    one = ask(query, node="demo")[3]["metric"]
    text = ",".join(f'{key}="{value}"' for key, value in sorted(one.items()))
    found = re.search(pattern, text)
    assert found
    assert (found["text"], found["value"]) == (one["gpu"], one["uuid"])


def test_the_findings_timeline_shows_the_severity_of_what_was_found(ask):
    found = ask(expression("gpudiag-node", "Findings A"), node="demo")
    worst = {s["metric"]["symptom"]: s["values"][-1][1] for s in found}
    assert worst["thermal-throttle"] == "2"
    assert worst["gpu-xid"] == "3"


def test_the_starving_rank_is_the_one_that_does_not_wait_for_others(ask):
    expr = expression("gpudiag-training", "Comm wait against compute A")
    found = ask(expr, node="straggler/one-loader-starves")
    waits = {s["metric"]["rank"]: float(s["values"][-1][1]) for s in found}
    assert waits["0"] < 0.1 < 0.4 < waits["1"]


def test_a_leak_gives_the_time_until_the_device_is_full(ask):
    node = "memory-slow-growth/retained-tensors.*"
    found = ask(expression("gpudiag-memory", "Full in A"), node=node)
    # While the warm-up lies in the span every rank seems to grow; at its end one does.
    end = max(float(s["values"][-1][0]) for s in found)
    last = {s["metric"]["rank"]: s["values"][-1] for s in found}
    left = {rank: float(value) for rank, (at, value) in last.items() if float(at) == end}
    assert left.keys() == {"1"}
    assert 40_000 < left["1"] < 60_000


def test_a_first_xid_is_a_mark(ask):
    marks = {m["name"]: m for m in BY_NAME["gpudiag-node"]["annotations"]["list"]}
    found = ask(marks["XIDs"]["target"]["expr"], node="gpu-xid/.*")
    assert {s["metric"]["xid"] for s in found} == {"119"}
