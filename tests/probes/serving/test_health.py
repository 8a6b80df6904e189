"""What servers say of themselves, and what of it is believed."""

from __future__ import annotations

import pytest

from gpudiag.probes.serving.asking import Asking
from gpudiag.probes.serving.engines import engines
from gpudiag.probes.serving.health import Health, health, models
from tests.modelserver import model_server, send


def asked(kind, answer, path=""):
    engine = engines().get(kind)
    with model_server() as at:
        at.answers[path or (engine.health if engine else "")] = answer
        found = health(engine, path, Asking(at.url))
    return found.ready, found.engine_up


def saying(status, text=""):
    return lambda handler: send(handler, status, text)


@pytest.mark.parametrize(
    ("kind", "answer", "ready", "engine_up"),
    [
        ("vllm", saying(200), True, True),
        ("vllm", saying(503), False, False),
        ("vllm", saying(500), False, None),
        ("vllm", saying(404), None, None),
        ("sglang", saying(200), True, None),
        ("sglang", saying(503), False, None),
        ("sglang", saying(404), None, None),
        ("tgi", saying(503, "unhealthy"), False, None),
        ("tgi", saying(429, "Model is overloaded"), None, None),
        ("triton", saying(400), False, None),
        ("triton", saying(401), None, None),
        ("dynamo", {"status": "healthy"}, True, None),
        ("dynamo", {"status": "unhealthy"}, False, None),
        ("dynamo", "not json", False, None),
        ("dynamo", "[" * 100_000, False, None),
        ("ray-serve", saying(200, "success"), True, None),
        ("ray-serve", saying(503, "This node is being drained"), False, None),
    ],
)
def test_what_an_answer_means(kind, answer, ready, engine_up):
    assert asked(kind, answer) == (ready, engine_up)


def test_an_endpoint_of_ones_own():
    assert asked("sglang", saying(200), "/health_generate") == (True, None)
    assert asked("", saying(200), "/mine") == (True, None)


def test_nobody_is_asked_where_nothing_is_known():
    assert health(None, "", Asking("http://127.0.0.1:1")) == Health()


def loaded(kind, answers, names=()):
    with model_server() as at:
        at.answers.update(answers)
        found = list(models(engines()[kind], "s", names, 1.0, Asking(at.url)))
    return {dict(sample.labels).get("model", ""): sample.value for sample in found}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"data": [{"id": "m"}]}, {"": 1.0}),
        ({"data": []}, {"": 0.0}),
        ({"error": "x"}, {}),
        ([], {}),
        (saying(401), {}),
    ],
)
def test_a_model_is_loaded_where_it_is_listed(answer, told):
    assert loaded("vllm", {"/v1/models": answer}) == told


def test_each_model_of_triton_tells_for_itself():
    answers = {
        "/v2/models/bert/ready": saying(200),
        "/v2/models/a%2Fb/ready": saying(400),
        "/v2/models/odd/ready": saying(500),
    }
    assert loaded("triton", answers, ["bert", "a/b", "odd"]) == {"bert": 1.0, "a/b": 0.0}
