import pytest

from gpudiag.probes.catalog import load
from gpudiag.probes.catalog.records import ClockEvent
from gpudiag.probes.errors import UsageError

ROW = {"bit": 1, "name": "idle", "meaning": "rests"}


def test_lists_become_tuples() -> None:
    assert load.build(ClockEvent, ROW) == ClockEvent(1, "idle", "rests")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({**ROW, "bot": 2}, r"unknown keys \['bot'\]"),
        ({"bit": 1}, "missing"),
        ({**ROW, "bit": "1"}, "not of type int"),
        ({**ROW, "bit": True}, "not of type int"),
    ],
)
def test_a_bad_row_is_refused_by_name(row: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        load.build(ClockEvent, row)


def test_a_key_described_twice_is_refused() -> None:
    event = load.build(ClockEvent, ROW)
    with pytest.raises(UsageError, match="described twice"):
        load.keyed([event, event], lambda e: e.bit)


def test_ranges() -> None:
    assert load.ranges("1-3, 7") == (1, 2, 3, 7)


@pytest.mark.parametrize("text", ["", "1-", "a", "1,,2", "-3", "²"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="numbers and ranges"):
        load.ranges(text)


def test_a_tree_is_no_circle() -> None:
    load.refuse_circle({"a": ["b", "c"], "b": ["c"], "c": ["elsewhere"]}, "the tree")


@pytest.mark.parametrize("edges", [{"a": ["a"]}, {"a": ["b"], "b": ["c"], "c": ["b"]}])
def test_a_circle_is_refused(edges: dict[str, list[str]]) -> None:
    with pytest.raises(UsageError, match="runs in a circle"):
        load.refuse_circle(edges, "the graph")
