from gpudiag.agent.rules._lines import at, event_node, kernel_facts, lines, nodes
from gpudiag.agent.window import Point, Window
from gpudiag.probes import Event

DOWN = "mlx5_core 0000:17:00.0 ens1: Link down"


def window(*events: Event) -> Window:
    made = Window(())
    made.add([], events)
    made.now = 100.0
    return made


def test_kernel_facts_are_of_the_kind_and_the_time_asked_for() -> None:
    made = window(Event(1.0, "kmsg", DOWN), Event(90.0, "kmsg", DOWN), Event(91.0, "log:a", DOWN))
    ((event, fact),) = kernel_facts(made, 50.0, ("link_down",), ("ink down",))
    assert (event.time, fact.name) == (90.0, "ens1")


def test_a_line_without_the_needle_is_not_even_parsed() -> None:
    assert kernel_facts(window(Event(90.0, "kmsg", DOWN)), 50.0, ("link_down",), ("Xid",)) == []


def test_lines_are_those_of_programs() -> None:
    made = window(Event(90.0, "kmsg", "no space"), Event(91.0, "log:train", "no space"))
    assert [e.source for e in lines(made, 50.0, "space")] == ["log:train"]


def test_a_single_node_needs_no_name() -> None:
    assert nodes([Point({}, 0.0, 1.0)]) == [{}]
    assert nodes([]) == []


def test_named_nodes_are_told_apart() -> None:
    found = nodes([Point({"node": n}, 0.0, 1.0) for n in ("b", "a", "b")])
    assert [at(where) for where in found] == [(("node", "a"),), (("node", "b"),)]


def test_an_event_may_name_its_node() -> None:
    assert event_node(Event(0.0, "kmsg", "", "", {"node": "a"})) == {"node": "a"}
    assert event_node(Event(0.0, "kmsg", "")) == {}
