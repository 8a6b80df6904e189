from __future__ import annotations

import json
import queue

import httpx
import pytest

from gpudiag.agent.acting.counting import Counts
from gpudiag.agent.acting.telling import Teller
from gpudiag.agent.actions.audit import Line
from gpudiag.agent.config.acting import Webhook
from tests.agent.actions.test_guard import plan
from tests.running import PATIENCE

LINE = Line(time=0.0, decision="done", actor="gpudiag", why="it hangs", plan=plan())


def told(shape, answer=lambda _: httpx.Response(200)):
    asked: queue.Queue[httpx.Request] = queue.Queue()

    def handle(request):
        asked.put(request)
        return answer(request)

    hook = Webhook(url="http://hook/x", format=shape, headers={"Authorization": "@/key"})
    client = lambda: httpx.Client(transport=httpx.MockTransport(handle))  # noqa: E731
    teller = Teller([hook], "n1", lambda value: value.replace("@/key", "hush"), client)
    teller(LINE)
    return asked.get(timeout=PATIENCE), teller, asked


def test_slack_gets_one_line():
    request, *_ = told("slack")
    assert json.loads(request.content)["text"] == (
        "gpudiag on n1: done unready at server=chat for serving-stalled/engine-hung"
        " (gpudiag): it hangs"
    )
    assert request.headers["Authorization"] == "hush"


def test_alertmanager_gets_an_alert():
    (alert,) = json.loads(told("alertmanager")[0].content)
    assert alert["labels"]["outcome"] == "done"
    assert alert["startsAt"] == "1970-01-01T00:00:00+00:00"


def broken(_):
    raise httpx.ConnectError("down")


@pytest.mark.parametrize("answer", [broken, lambda _: httpx.Response(500)])
def test_a_hook_that_fails_does_not_end_the_telling(answer):
    _, teller, asked = told("slack", answer)
    teller(LINE)
    assert asked.get(timeout=PATIENCE)


def test_outcomes_are_counted_and_steps_between_are_not():
    counts = Counts()
    for decision in ("begun", "done", "worse", "not_verified"):
        counts(Line(time=0.0, decision=decision, actor="g", why="", plan=plan()))
    assert counts.of == {("unready", "done"): 1, ("unready", "not_verified"): 2}
