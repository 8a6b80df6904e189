import threading

import pytest

from gpudiag.probes import Event
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.serving import compare
from gpudiag.probes.serving.canary import Canary
from gpudiag.probes.serving.canary_api import apis
from gpudiag.probes.serving.canary_target import Target
from tests.modelserver import DAYS, chat, cut, hanging, huge, model_server, send, streaming

OK, ALIKE = "gpudiag_canary_ok", "gpudiag_canary_similarity_ratio"
SECONDS, FIRST = "gpudiag_canary_seconds", "gpudiag_canary_ttft_seconds"
CHAT = "v1__chat__completions"


def target(server, api="openai-chat", **changes):
    chosen = apis()[api]
    measure = compare.DEFAULT[chosen.gives]
    settings = {
        "name": "s", "model": "llama", "prompt": chosen.prompt, "measure": measure,
        "tolerance": compare.TOLERANCE[measure], "timeout": 60.0, **changes,
    }  # fmt: skip
    return Target(url=server.url, api=chosen, **settings)


class Asked:
    """A canary of some servers, and what its last read gave."""

    def __init__(self, folder, *targets, requests=1000, busy=lambda _: False, environ=None):
        self.now = 0.0
        self.probe = Canary(
            targets, folder, requests_per_hour=requests, tokens_per_hour=10**6, busy=busy,
            now=lambda: self.now, environ=environ or {},
        )  # fmt: skip
        self.events = []

    def read(self, times=1):
        for _ in range(times):
            self.now += 60.0
            records = list(self.probe.read())
            self.samples = [r for r in records if not isinstance(r, Event)]
            self.events += [r for r in records if isinstance(r, Event)]
        return self

    def value(self, metric, **match):
        """The value, "stale" for a marker, None where there is none."""
        found = [s.value for s in self.samples if s.metric == metric
                 and match.items() <= dict(s.labels).items()]  # fmt: skip
        return ("stale" if found[0] != found[0] else found[0]) if found else None

    def count(self, outcome):
        return self.value("gpudiag_canary_requests_total", outcome=outcome)

    def lines(self):
        return [event.line for event in self.events]


def test_without_servers_there_is_no_canary(tmp_path):
    with pytest.raises(Unavailable):
        Asked(tmp_path).read()


def test_a_server_that_answers_as_it_did(tmp_path):
    with model_server(**{CHAT: chat(DAYS)}) as server:
        asked = Asked(tmp_path, target(server)).read(4)
    assert (asked.value(OK, server="s", model="llama"), asked.value(ALIKE)) == (1.0, 1.0)
    assert 0.0 < asked.value(SECONDS) < 5.0
    assert asked.value("gpudiag_canary_info", api="openai-chat", gives="text") == 1.0
    assert asked.count("ok") == 4.0
    assert asked.lines() == ["canary s: recorded a baseline of llama from 3 answers"]


@pytest.mark.parametrize(
    ("text", "alike", "outcome", "words"),
    [
        ("Monday, Friday, " + DAYS, pytest.approx(2 / 13), "differs", "likeness"),
        ("!" * 24, 0.0, "garbage", "the same token"),
        ("", 0.0, "garbage", "an empty text"),
    ],
)
def test_answers_that_become_bad(tmp_path, text, alike, outcome, words):
    with model_server(**{CHAT: chat(DAYS)}) as server:
        asked = Asked(tmp_path, target(server)).read(3)
        server.answers["/v1/chat/completions"] = chat(text)
        asked.read()
    assert (asked.value(OK), asked.value(ALIKE), asked.count(outcome)) == (0.0, alike, 1.0)
    assert asked.lines()[-1].startswith(f"canary s failed ({outcome})")
    assert words in asked.lines()[-1]


def test_it_is_said_when_it_becomes_bad_again_while_it_lasts_and_when_it_is_well(tmp_path):
    with model_server(**{CHAT: chat("!" * 24)}) as server:
        asked = Asked(tmp_path, target(server)).read(21)
        server.answers["/v1/chat/completions"] = chat(DAYS)
        asked.read(2)
    kinds = [event.type for event in asked.events]
    assert kinds == ["canary_failed"] * 3 + ["canary_ok"]
    assert asked.events[0].fields["server"] == "s"


def failing(tmp_path, answer, api="openai-chat", **changes):
    """A server that was well, and then answers so."""
    path = "/v1/chat/completions"
    with model_server(**{CHAT: chat(DAYS)}) as server:
        asked = Asked(tmp_path, target(server, **changes)).read(3)
        server.answers[path] = answer
        return asked.read()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (cut, "truncated"),
        (huge, "garbage"),
        ("<html>login</html>", "garbage"),
        (
            lambda handler: send(handler, 500, "CUDA error"),
            "server_error",
        ),
        (lambda handler: send(handler, 404, "The model `llama` does not exist"), "rejected"),
    ],
)
def test_no_answer_where_there_was_one_is_a_failure(tmp_path, answer, outcome):
    asked = failing(tmp_path, answer)
    assert (asked.value(OK), asked.count(outcome)) == (0.0, 1.0)
    # Nothing was measured: what was known before is not known any more.
    assert asked.value(SECONDS) == "stale"


def test_a_server_that_hangs_holds_up_no_other(tmp_path):
    over = threading.Event()
    with model_server(**{CHAT: hanging(over)}) as hung, model_server(**{CHAT: chat(DAYS)}) as well:
        both = target(hung, timeout=0.5), target(well, name="t")
        asked = Asked(tmp_path, *both).read()
        over.set()
    assert (asked.value(OK, server="s"), asked.value(OK, server="t")) == (0.0, 1.0)
    assert asked.lines() == ["canary s failed (timeout): no whole answer within 0.5 s"]


def test_nobody_listens(tmp_path):
    with model_server() as server:
        one = target(server)
    asked = Asked(tmp_path, one).read()
    assert (asked.value(OK), asked.count("refused")) == (0.0, 1.0)


@pytest.mark.parametrize("status", [401, 400, 404, 302])
def test_a_request_that_was_never_right_blames_no_server(tmp_path, status):
    with model_server(**{CHAT: "no"}) as server:
        server.status = status
        asked = Asked(tmp_path, target(server)).read(2)
    assert (asked.value(OK), asked.count("misconfigured")) == (None, 2.0)
    assert len(asked.events) == 1


def test_after_a_restart_a_request_that_was_right_is_still(tmp_path):
    with model_server(**{CHAT: chat(DAYS)}) as server:
        Asked(tmp_path, target(server)).read(3)
        server.answers.clear()
        assert Asked(tmp_path, target(server)).read().value(OK) == 0.0


def test_a_server_under_load_is_not_asked_and_nothing_is_claimed(tmp_path):
    busy = set()
    with model_server(**{CHAT: chat(DAYS)}) as server:
        asked = Asked(tmp_path, target(server), busy=lambda name: name in busy).read()
        busy.add("s")
        asked.read()
        assert len(server.seen) == 1
    assert (asked.value(OK), asked.count("busy")) == ("stale", 1.0)


def test_one_that_refuses_for_load_is_not_blamed(tmp_path):
    asked = failing(tmp_path, lambda handler: send(handler, 429, "Model is overloaded"))
    assert (asked.value(OK), asked.count("busy")) == ("stale", 1.0)


def test_the_budget_ends_it_for_the_hour(tmp_path):
    with model_server(**{CHAT: chat(DAYS)}) as server:
        asked = Asked(tmp_path, target(server), requests=2).read(5)
        assert len(server.seen) == 2
    assert (asked.value(OK), asked.count("over_budget")) == (None, 3.0)


def test_another_model_behind_the_same_name(tmp_path):
    with model_server(**{CHAT: chat(DAYS)}) as server:
        asked = Asked(tmp_path, target(server)).read(4)
        server.answers["/v1/chat/completions"] = chat("Lundi, Mardi", model="qwen")
        asked.read()
    assert asked.value(OK, model="qwen") == 1.0
    assert asked.value(OK, model="llama") == "stale"
    assert "the model is qwen, it was llama" in asked.lines()[-1]


def test_the_model_is_asked_for_where_it_is_not_configured(tmp_path):
    models = {"data": [{"id": "llama"}]}
    with model_server(v1__models=models, **{CHAT: chat(DAYS)}) as server:
        Asked(tmp_path, target(server, model="")).read()
        assert server.seen[1].body["model"] == "llama"


def test_what_is_expected_is_so_from_the_first_answer_on(tmp_path):
    with model_server(**{CHAT: chat("Bananas are yellow")}) as server:
        asked = Asked(tmp_path, target(server, expect="Monday")).read(4)
    assert (asked.value(OK), asked.value(ALIKE)) == (0.0, None)


def test_a_stream_tells_its_first_token(tmp_path):
    with model_server(**{CHAT: streaming(["Mon", "day"], pause=0.1)}) as server:
        asked = Asked(tmp_path, target(server, stream=True)).read()
    assert asked.value(OK) == 1.0
    assert 0.0 < asked.value(FIRST) < asked.value(SECONDS) - 0.05


def test_a_stream_that_breaks_off(tmp_path):
    with model_server(**{CHAT: streaming(["Mon"], end="")}) as server:
        assert Asked(tmp_path, target(server, stream=True)).read().count("truncated") == 1.0


VECTOR = [0.1, -0.2, 0.3]


@pytest.mark.parametrize(
    ("api", "path", "well", "off", "bad"),
    [
        ("tei-embed", "embed", [VECTOR], [[0.1, -0.2, 0.301]], [[-0.3, 0.2, 0.1]]),
        ("tei-embed", "embed", [VECTOR], [VECTOR], [[0.1, -0.2]]),
        ("tei-embed", "embed", [VECTOR], [VECTOR], "[[NaN, NaN, NaN]]"),
        (
            "openai-embeddings", "v1__embeddings", {"data": [{"embedding": VECTOR}]},
            {"data": [{"embedding": VECTOR}]}, {"data": [{"embedding": [0.0, 0.0, 0.0]}]},
        ),
        (
            "tei-predict", "predict", [{"label": "joy", "score": 0.95}],
            [{"label": "joy", "score": 0.93}], [{"label": "fear", "score": 0.51}],
        ),
        (
            "tei-rerank", "rerank", [{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}],
            [{"index": 1, "score": 0.88}], [{"index": 0, "score": 0.5}, {"index": 1, "score": 0.4}],
        ),
        (
            "vllm-score", "score", {"data": [{"index": 1, "score": 0.9}]},
            {"data": [{"index": 1, "score": 0.9}]}, {"data": [{"index": 1, "score": 0.2}]},
        ),
        (
            "tgi-generate", "generate", {"generated_text": "Das Haus ist wunderbar."},
            {"generated_text": "Das Haus ist wunderbar"}, {"generated_text": "Das Das Das"},
        ),
    ],
)  # fmt: skip
def test_encoders_and_translators(tmp_path, api, path, well, off, bad):
    with model_server(**{path: well}) as server:
        asked = Asked(tmp_path, target(server, api)).read(3)
        server.answers["/" + path.replace("__", "/")] = off
        assert asked.read().value(OK) == 1.0
        server.answers["/" + path.replace("__", "/")] = bad
        asked.read()
    assert (asked.value(OK), asked.value(ALIKE) < 0.8) == (0.0, True)


def test_a_page_that_names_the_model_may_be_missing(tmp_path):
    with model_server(embed=[VECTOR]) as server:
        assert Asked(tmp_path, target(server, "tei-embed", model="")).read().value(OK) == 1.0


def test_a_page_that_names_the_model_tells_of_another(tmp_path):
    with model_server(embed=[VECTOR], info={"model_id": "bge", "model_sha": "1"}) as server:
        asked = Asked(tmp_path, target(server, "tei-embed", model="")).read(3)
    assert asked.value(OK, model="bge") == 1.0


def test_any_other_endpoint_by_template(tmp_path):
    changes = {"path": "/translate", "answer": ("/result/text",), "gives": "text"}
    body = {"q": "$prompt", "to": "de"}
    with model_server(translate={"result": {"text": "Guten Tag"}}) as server:
        one = target(server, "json", body=body, prompt="Good day")
        one = Target(**{**{f: getattr(one, f) for f in Target.__slots__},
                        "api": apis()["json"].changed(changes)})  # fmt: skip
        assert Asked(tmp_path, one).read().value(OK) == 1.0
        assert server.seen[0].body == {"q": "Good day", "to": "de"}
