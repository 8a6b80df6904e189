import pytest

from gpudiag.agent import config
from gpudiag.agent.config.canary import target
from gpudiag.probes.errors import UsageError

CHAT = "name: chat, url: 'http://h:8000', api: openai-chat"


def parsed(entries, **others):
    lines = [f"  {key}: {value}" for key, value in others.items()]
    text = f"probes:\n canary:\n  servers: [{entries}]\n" + "\n".join(lines)
    return config.parse(text, "g.yaml").probes.canary


def test_what_is_left_out_is_the_api_s_own():
    (server,) = parsed(f"{{{CHAT}}}").servers
    made = target(server)
    assert (made.measure, made.tolerance, made.timeout) == ("prefix", 0.2, 20.0)
    assert "days of the week" in made.prompt


def test_an_endpoint_of_any_kind():
    entry = "{name: t, url: 'http://h', api: json, path: /t, body: {q: $prompt}, answer: /y/0,"
    made = target(parsed(f"{entry} prompt: hi, gives: label, tolerance: 0.3}}").servers[0])
    assert (made.api.answer, made.path(""), made.measure) == (("/y/0",), "/t", "label")
    assert made.request("") == b'{"q": "hi"}'


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        (f"{{{CHAT}}}, {{{CHAT}}}", "chat: the name stands there twice"),
        ("{name: a, url: 'ftp://h', api: openai-chat}", "a: give it a name and a url"),
        ("{name: a, url: 'http://h:x', api: openai-chat}", "a: url"),
        ("{name: a, url: 'http://u:p@h', api: openai-chat}", "no password in it"),
        ("{name: a, url: 'http://h?x=1', api: openai-chat}", "only the server's address"),
        ("{name: a, url: 'http://h', api: chat}", "there are openai-chat, "),
        ("{name: a, url: 'http://h', api: json}", "give path, body and answer"),
        ("{name: a, url: 'http://h', api: triton-infer}", "give model, and body"),
        (f"{{{CHAT}, api_key: sk-123}}", "not the key itself"),
        (f"{{{CHAT}, measure: cosine}}", "text is compared by exact, normalised, prefix"),
        (f"{{{CHAT}, baseline: other}}", "no server 'other'"),
        (f"{{{CHAT}, path: x}}", "begin with /"),
        (f"{{{CHAT}, timeout: 1h}}", "between 0s and 10m"),
        ("{name: a, url: 'http://h', api: tei-embed, stream: true}", "does not stream"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(entries, why):
    with pytest.raises(UsageError) as caught:
        parsed(entries)
    assert str(caught.value).startswith("g.yaml:3: probes.canary.servers")
    assert why in str(caught.value)
    assert "sk-123" not in str(caught.value)


def test_a_canary_is_no_load_test():
    with pytest.raises(UsageError, match="the shortest cadence of a canary is 1s"):
        parsed(f"{{{CHAT}}}", cadence="500ms")
