import time

import pytest

from gpudiag.probes.serving.canary_api import apis
from gpudiag.probes.serving.canary_ask import ask
from gpudiag.probes.serving.canary_fetch import Exchange
from gpudiag.probes.serving.canary_target import Target
from tests.modelserver import DAYS, chat, model_server, send

CHAT = "v1__chat__completions"


def asked(server, environ=None, **changes):
    settings = {"api": apis()["openai-chat"], "measure": "prefix", "tolerance": 0.2, **changes}
    target = Target(name="s", url=server.url, **settings)
    return ask(target, Exchange(server.url, time.monotonic() + 60), environ=environ or {})


@pytest.mark.parametrize("spelled", ["@{}/key", "$KEY"])
def test_the_key_comes_from_a_file_or_a_variable_and_is_never_told(tmp_path, spelled):
    (tmp_path / "key").write_text("s3cret\n")

    def echo(handler):
        send(handler, 500, f"bad {handler.headers['Authorization']}")

    with model_server(**{CHAT: echo}) as server:
        key = spelled.format(tmp_path)
        result = asked(server, {"KEY": "s3cret"}, model="m", api_key=key)
        assert server.seen[0].headers["Authorization"] == "Bearer s3cret"
    assert result.detail == "HTTP 500: bad Bearer [key]"


@pytest.mark.parametrize("spelled", ["@/nowhere/key", "$UNSET", "$BROKEN"])
def test_without_a_key_that_is_one_nothing_is_sent(spelled):
    with model_server(**{CHAT: chat(DAYS)}) as server:
        result = asked(server, {"BROKEN": "a\nHost: b"}, model="m", api_key=spelled)
        assert server.seen == []
    assert result.outcome == "misconfigured"
    assert "Host" not in result.detail


def test_an_answer_that_holds_the_key_holds_it_no_more():
    with model_server(**{CHAT: chat("you are s3cret")}) as server:
        result = asked(server, {"KEY": "s3cret"}, model="m", api_key="$KEY")
    assert result.answer.text == "you are [key]"


def test_a_model_that_no_page_names_must_be_configured():
    with model_server(v1__models={"data": []}, **{CHAT: chat(DAYS)}) as server:
        result = asked(server)
    assert (result.outcome, "set `model`" in result.detail) == ("rejected", True)
