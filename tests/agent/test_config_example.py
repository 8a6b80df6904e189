"""The documented configuration shows every key, with its default."""

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
import yaml

from gpudiag.agent import config

EXAMPLE = Path(__file__).parents[2] / "deploy" / "gpudiag.yaml"


def schema_keys(struct, path=""):
    for field in msgspec.structs.fields(struct):
        yield f"{path}{field.name}"
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from schema_keys(field.type, f"{path}{field.name}.")


def plain():
    return yaml.safe_load(EXAMPLE.read_text())


def test_it_is_accepted_and_says_the_defaults():
    read = config.load(EXAMPLE)
    defaults = msgspec.structs.replace(read, rules={})
    assert defaults == config.Config()


@pytest.mark.parametrize("key", list(schema_keys(config.Config)))
def test_every_key_is_in_it(key):
    node = plain()
    for part in key.split("."):
        assert part in node
        node = node[part]


def test_the_example_of_a_rule_shows_every_key():
    (entry,) = plain()["rules"].values()
    assert entry.keys() == {f.name for f in msgspec.structs.fields(config.RuleSettings)}


def test_every_key_has_a_comment_above_it():
    lines = EXAMPLE.read_text().splitlines()
    bare = {
        "node:",
        "actions:",
        "budget:",
        "snapshots:",
        "exporters:",
        "otlp:",
        "channel:",
        "kubernetes:",
        "http:",
        "recording:",
        "log:",
        "clear: null",
    }
    bare |= {"thermal-throttle:"}
    for above, line in pairwise(lines):
        if line and not line.lstrip().startswith("#") and line.strip() not in bare:
            assert above.lstrip().startswith("#"), line
