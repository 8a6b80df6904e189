from __future__ import annotations

from types import SimpleNamespace

import pytest
from starlette.applications import Starlette

from gpudiag.agent.exporters.control import routes
from gpudiag.probes.errors import GpudiagError
from tests.agent.exporters.client import Client

TOKEN = {"Authorization": "Bearer hush"}
CHANGES = ["/api/v1/actions/p/approve", "/api/v1/actions/p/deny", "/api/v1/breaker/reset"]


class Control:
    def __init__(self, token="hush", workload=None):
        self.token, self.workload, self.said = token, workload, []
        self.known: bool | Exception = True

    def shown(self):
        return {"mode": "approve", "actions": []}

    def approve(self, plan, actor):
        self.said.append(("approve", plan, actor))
        if isinstance(self.known, Exception):
            raise self.known
        return self.known

    def deny(self, plan, actor):
        self.said.append(("deny", plan, actor))
        return self.known

    def reset_breaker(self, actor):
        self.said.append(("reset", "", actor))
        return self.known


def client(control):
    return Client(Starlette(routes=routes(control)), base_url="http://localhost:9440")


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize("shown", [{}, {"Authorization": "Bearer hus"}, {"Authorization": "hush"}])
def test_nothing_changes_without_the_token(path, shown):
    control = Control()
    assert client(control).request("POST", path, headers=shown).status_code == 401
    assert control.said == []


@pytest.mark.parametrize("path", CHANGES)
def test_without_a_configured_token_nobody_changes_anything(path):
    control = Control(token="")
    assert (
        client(control).request("POST", path, headers={"Authorization": "Bearer "}).status_code
        == 403
    )
    assert control.said == []


@pytest.mark.parametrize("path", CHANGES)
def test_looking_never_changes(path):
    assert client(Control()).get(path, headers=TOKEN).status_code == 405


def test_who_said_it_is_handed_on():
    control = Control()
    answer = client(control).request("POST", CHANGES[0], headers={**TOKEN, "X-Actor": "ann"})
    assert answer.json() == {"done": True}
    assert control.said == [("approve", "p", "ann")]


def test_a_plan_that_does_not_wait_is_not_found():
    control = Control()
    control.known = False
    assert client(control).request("POST", CHANGES[1], headers=TOKEN).status_code == 404


def test_a_spoilt_ledger_is_told():
    control = Control()
    control.known = GpudiagError("the ledger cannot be used")
    answer = client(control).request("POST", CHANGES[0], headers=TOKEN)
    assert (answer.status_code, answer.json()["error"]) == (503, "the ledger cannot be used")


@pytest.mark.parametrize(("why", "status"), [("", 200), ("it hangs", 503)])
def test_the_workloads_probes_get_their_answer(why, status):
    workload = SimpleNamespace(why_unready=lambda: why, why_dead=lambda: "")
    http = client(Control(workload=workload))
    assert http.get("/workload/readyz").status_code == status
    assert http.get("/workload/livez").text == "ok\n"


def test_without_a_workload_nobody_answers_for_it():
    assert client(Control()).get("/workload/readyz").status_code == 404
