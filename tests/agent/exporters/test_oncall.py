"""Nothing is said of a finding without the token, and nothing but what was asked for is taken."""

from __future__ import annotations

import json

import pytest
from starlette.applications import Starlette

from gpudiag.agent.exporters.oncall import LONGEST_SECONDS, MAX_BODY, routes
from gpudiag.probes.errors import GpudiagError
from tests.agent.exporters.client import Client

TOKEN = {"Authorization": "Bearer hush", "X-Actor": "ann"}
NAME = "disk-watermark{mountpoint=%2Fscratch%2Fa}"
FINDING = "disk-watermark{mountpoint=/scratch/a}"
BODIES = {
    "acknowledge": {"seconds": 60, "reason": "mine"},
    "withdraw": None,
    "verdict": {"right": False, "cause": "x"},
}


class OnCall:
    def __init__(self, token="hush"):
        self.token, self.said, self.known = token, [], True
        self.error = None

    def _told(self, *what):
        if self.error:
            raise self.error
        self.said.append(what)
        return self.known

    def acknowledge(self, finding, seconds, reason, actor):
        return self._told("acknowledge", finding, seconds, reason, actor)

    def withdraw(self, finding, actor):
        return self._told("withdraw", finding, actor)

    def judge(self, finding, right, cause, actor):
        known = self._told("verdict", finding, right, cause, actor)
        return {"done": True, "draft": "d"} if known else None


def post(oncall, what, body, headers=TOKEN):
    client = Client(Starlette(routes=routes(oncall)), base_url="http://localhost:9440")
    text = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
    path = f"/api/v1/findings/{NAME}/{what}"
    return client.request("POST", path, headers=headers, content=text)


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("shown", [{}, {"Authorization": "Bearer hus"}, {"Authorization": "hush"}])
def test_nothing_is_taken_without_the_token(what, shown):
    oncall = OnCall()
    assert post(oncall, what, BODIES[what], shown).status_code == 401
    assert oncall.said == []


@pytest.mark.parametrize("what", BODIES)
def test_without_a_configured_token_nobody_says_anything(what):
    oncall = OnCall(token="")
    assert post(oncall, what, BODIES[what], {"Authorization": "Bearer "}).status_code == 403
    assert oncall.said == []


def test_what_was_said_of_whom_and_by_whom_is_handed_on():
    oncall = OnCall()
    for what, body in BODIES.items():
        assert post(oncall, what, body).status_code == 200
    assert oncall.said == [
        ("acknowledge", FINDING, 60.0, "mine", "ann"),
        ("withdraw", FINDING, "ann"),
        ("verdict", FINDING, False, "x", "ann"),
    ]


@pytest.mark.parametrize("what", BODIES)
def test_a_finding_that_is_not_there_is_not_found(what):
    oncall = OnCall()
    oncall.known = False
    assert post(oncall, what, BODIES[what]).status_code == 404


@pytest.mark.parametrize(
    ("what", "body"),
    [
        ("acknowledge", b""),
        ("acknowledge", b"\xff"),
        ("acknowledge", {"seconds": 0, "reason": "r"}),
        ("acknowledge", {"seconds": LONGEST_SECONDS + 1, "reason": "r"}),
        ("acknowledge", {"seconds": 60, "reason": ""}),
        ("acknowledge", {"seconds": 60, "reason": "r", "by": "bob"}),
        ("acknowledge", b'{"seconds": 60, "reason": "' + b"r" * MAX_BODY + b'"}'),
        ("verdict", {"right": "yes"}),
    ],
)
def test_a_body_that_is_not_as_it_must_be_is_refused(what, body):
    oncall = OnCall()
    assert post(oncall, what, body).status_code == 400
    assert oncall.said == []


def test_a_disk_that_refuses_is_told():
    oncall = OnCall()
    oncall.error = GpudiagError("the disk is full")
    answer = post(oncall, "withdraw", None)
    assert (answer.status_code, answer.json()["error"]) == (503, "the disk is full")
