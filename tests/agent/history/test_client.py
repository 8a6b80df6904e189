from __future__ import annotations

import itertools
import resource
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from gpudiag.agent.history.access import Access, access
from gpudiag.agent.history.client import Client, matcher
from gpudiag.agent.history.failing import ServerError, TooMuch
from gpudiag.agent.history.transfer import Patience
from tests.promdouble import Asked, Double, Reply, double, failure, matrix, success

QUICK = Patience(seconds=60.0, silence=60.0, max_bytes=1024**2, backoff=0.01, longest_wait=0.05)


def client(server: Double, **headers: str) -> Client:
    return Client(Access(server.url, headers), QUICK)


def test_samples_come_with_their_own_times_and_the_servers_warnings():
    row = {"metric": {"__name__": "up", "job": "a"}, "values": [[10.5, "1"], [20.5, "NaN"]]}
    with double(lambda _: matrix(row, warnings=["one store is away"])) as server:
        answer = client(server).raw('up{job="a"}', 0.0, 60.0)
    (series,) = answer.series
    assert (series.metric, series.labels) == ("up", (("job", "a"),))
    np.testing.assert_array_equal(series.times, [10.5, 20.5])
    np.testing.assert_array_equal(series.values, [1.0, np.nan])
    assert answer.warnings == ("one store is away",)
    assert server.asked[0].parameters == {"query": ['up{job="a"}[60000ms]'], "time": ["60.000"]}


def test_a_partial_answer_says_so():
    with double(lambda _: matrix(isPartial=True)) as server:
        assert "partial" in client(server).instant("up", 0.0).warnings[0]


def test_vector_scalar_and_native_histograms_are_read():
    native = [7.0, {"count": "3", "sum": "4.5", "buckets": [[0, "1", "2", "3"]]}]
    replies = iter(
        [
            success({"resultType": "vector", "result": [{"metric": {}, "value": [5, "+Inf"]}]}),
            success({"resultType": "scalar", "result": [5, "2"]}),
            matrix({"metric": {"__name__": "h"}, "histograms": [native]}),
        ]
    )
    with double(lambda _: next(replies)) as server:
        asking = client(server)
        assert asking.instant("x", 5.0).series[0].values.tolist() == [float("inf")]
        assert asking.instant("2", 5.0).series[0].values.tolist() == [2.0]
        ((at, histogram),) = asking.range("h", 0.0, 10.0, 1.0).series[0].natives
    assert at == 7.0
    assert histogram.buckets == ((0, "1", "2", "3"),)


def test_label_sets_and_values_are_listed():
    with double(lambda _: success([{"__name__": "up", "job": "b", "a": "c"}])) as server:
        assert client(server).series(["up"], 0.0, 9.0).found == (
            ("up", (("a", "c"), ("job", "b"))),
        )
    with double(lambda _: success(["up", "down"])) as server:
        listed = client(server).label_values("__name__", 0.0, 9.0, ["{job='x'}"])
        assert listed.found == ("up", "down")
        assert server.asked[0].path == "/api/v1/label/__name__/values"
        assert server.asked[0].parameters["match[]"] == ["{job='x'}"]


def test_a_long_question_goes_as_a_form():
    with double(lambda _: matrix()) as server:
        client(server).instant(matcher([f"metric_{n}" for n in range(300)], {"a": 'b"'}), 0.0)
    assert server.asked[0].method == "POST"
    assert server.asked[0].parameters["query"][0].endswith('metric_299",a="b\\""}')


def test_credentials_go_along():
    with double(lambda _: matrix()) as server:
        client(server, Authorization="Bearer abc", **{"X-Scope-OrgID": "us"}).instant("up", 0.0)
    sent = server.asked[0].headers
    assert (sent["Authorization"], sent["X-Scope-OrgID"]) == ("Bearer abc", "us")


def test_a_busy_server_is_asked_again_after_a_while():
    replies = iter([failure(503, "starting"), Reply(b"bad gateway", 502), matrix()])
    waits: list[float] = []
    with double(lambda _: next(replies)) as server:
        asking = Client(Access(server.url), QUICK, sleep=waits.append)
        assert asking.instant("up", 0.0).series == ()
    assert waits == [0.01, 0.02]


def test_a_server_that_stays_busy_is_given_up_with_its_words():
    with double(lambda _: failure(503, "no\nleader")) as server:
        with pytest.raises(ServerError, match="answers 503: no leader") as said:
            client(server).instant("up", 0.0)
        assert len(server.asked) == QUICK.tries
    assert not isinstance(said.value, TooMuch)


@pytest.mark.parametrize(
    "reply",
    [
        failure(422, "query processing would load too many samples into memory"),
        failure(400, "exceeded maximum resolution of 11,000 points per timeseries", "bad_data"),
        failure(503, "query timed out in expression evaluation", "timeout"),
        failure(422, "the number of matching timeseries exceeds 300000"),
        Reply(itertools.repeat(b" " * 65536)),
    ],
    ids=["samples", "points", "time", "series", "endless"],
)
def test_too_much_at_once_is_its_own_error_and_not_tried_again(reply):
    with double(lambda _: reply) as server:
        with pytest.raises(TooMuch):
            client(server).instant("up", 0.0)
        assert len(server.asked) == 1


def test_more_points_than_any_server_gives_are_not_asked_for():
    with double(lambda _: matrix()) as server:
        with pytest.raises(TooMuch):
            client(server).range("up", 0.0, 11_000.0, 1.0)
        client(server).range("up", 0.0, 10_999.0, 1.0)
        assert len(server.asked) == 1


def slowly() -> Iterator[bytes]:
    while True:
        time.sleep(0.05)
        yield b" "


def test_an_answer_without_end_is_given_up_in_time():
    hasty = replace(QUICK, seconds=1.0)
    with double(lambda _: Reply(slowly())) as server, pytest.raises(ServerError, match="in time"):
        Client(Access(server.url), hasty).instant("up", 0.0)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(b"<html>welcome</html>"), "is no Prometheus"),
        (Reply(b'{"status":'), "is no Prometheus"),
        (Reply(b"[" * 100_000), "is no Prometheus"),
        (Reply(b'{"status":"success","data":{"resultType":"cube","result":[]}}'), "no series"),
        (Reply(b'{"status":"success","data":17}'), "no series"),
        (matrix({"metric": {}, "values": [[1, "wat"]]}), "no series"),
        (Reply(b"\xff\xfe", 500), "answers 500"),
        (failure(401, "who are you"), "refuses these credentials"),
        (Reply(b"not found", 404), "no Prometheus API"),
        (
            Reply(b"", 302, {"Location": "http://elsewhere.example/x"}),
            "elsewhere.example: not foll",
        ),
        (Reply(b"", 302, {"Location": "//127.0.0.2/x"}), "127.0.0.2: not followed"),
        (Reply(b"", 302, {"Location": "http://127.0.0.1:1/x"}), "not followed"),
        (Reply(b"", 302, {"Location": "http://[oops/x"}), "no address"),
        (Reply(b"junk", 200, {"Content-Encoding": "gzip"}), "not reached"),
    ],
)
def test_a_broken_server_ends_in_one_clear_line(reply, says):
    with double(lambda _: reply) as server, pytest.raises(ServerError, match=says) as said:
        client(server, Authorization="Bearer s3cret").instant("up", 0.0)
    assert "\n" not in str(said.value)
    assert "s3cret" not in str(said.value)
    assert len(str(said.value)) < 500


def test_a_redirect_on_the_same_host_is_followed_and_a_circle_left():
    def moved(asked: Asked) -> Reply:
        if asked.path.startswith("/prometheus"):
            return matrix()
        return Reply(b"", 307, {"Location": f"/prometheus{asked.path}?query=up"})

    with double(moved) as server:
        client(server).instant("up", 4.0)
        assert server.asked[1].parameters == {"query": ["up"], "time": ["4.000"]}
    with (
        double(lambda asked: Reply(b"", 302, {"Location": asked.path})) as server,
        pytest.raises(ServerError, match="circle"),
    ):
        client(server).instant("up", 4.0)


def test_an_endless_answer_costs_little_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with (
        double(lambda _: Reply(itertools.repeat(b"[[1," * 65536))) as server,
        pytest.raises(TooMuch),
    ):
        client(server).instant("up", 0.0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


def test_nobody_there_is_said_with_the_address():
    with pytest.raises(ServerError, match=r"127\.0\.0\.1:1 is not reached"):
        Client(access("127.0.0.1:1", {}), QUICK).instant("up", 0.0)
