import json

import pytest

from gpudiag.probes.serving.canary_api import apis, first, resolve


@pytest.mark.parametrize("api", apis().values(), ids=lambda api: api.name)
def test_every_api_can_be_asked_and_read(api):
    assert api.path.startswith("/")
    assert isinstance(json.loads(api.body), dict)
    assert all(pointer == "" or pointer.startswith("/") for pointer in api.answer)
    assert bool(api.stream) == bool(api.delta)


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("", {"a/b": [{"c": 1}]}), ("/a~1b/0/c", 1), ("/a~1b/9/c", None), ("/a~1b/x", None)],
)
def test_pointers(pointer, found):
    assert resolve({"a/b": [{"c": 1}]}, pointer) == found


def test_an_empty_text_gives_way_but_is_still_one():
    assert first({"a": "", "b": "x"}, ("/a", "/b")) == "x"
    assert first({"a": ""}, ("/a", "/b")) == ""
