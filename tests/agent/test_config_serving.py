import pytest

from gpudiag.agent import config
from gpudiag.probes.errors import UsageError


def servers(entries):
    text = f"probes:\n serving:\n  servers: [{entries}]\n"
    return config.parse(text, "g.yaml").probes.serving.servers


def test_a_name_and_a_url_are_enough():
    (one,) = servers("{name: a, url: 'http://h:8000'}")
    assert (one.engine, one.page, one.health) == ("", "/metrics", "")


def test_page_and_health_may_be_whole_addresses():
    more = "page: 'http://h:8080/metrics?a=1', health: /ready, engine: ray-serve"
    (one,) = servers(f"{{name: a, url: 'http://h:8000', {more}}}")
    assert one.page == "http://h:8080/metrics?a=1"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("}, {name: a, url: 'http://i'", "a: the name stands there twice"),
        (", engine: vlm", "a: engine: no such kind of server; there are dynamo, "),
        (", page: metrics", "a: page: write a path"),
        (", page: ''", "a: page: write a path"),
        (", health: 'ftp://x/y'", "a: health: give it a name and a url"),
        (", page: 'http://u:p@h/metrics'", "a: page: url: no password"),
    ],
)
def test_what_is_wrong_is_said(more, why):
    with pytest.raises(UsageError, match=why):
        servers(f"{{name: a, url: 'http://h'{more}}}")


@pytest.mark.parametrize("url", ["http://h:x", "http://h:99999", "http://u:p@h", "http://h?x=1"])
def test_an_address_that_is_none(url):
    with pytest.raises(UsageError, match=r"probes\.serving\.servers.*a: url"):
        servers(f"{{name: a, url: '{url}'}}")
