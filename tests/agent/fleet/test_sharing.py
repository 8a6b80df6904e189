from math import comb, inf
from random import Random

import pytest

from gpudiag.agent.fleet.sharing import shared, tail

HOT = ("thermal-throttle", "thermal-throttle")
LINK = ("network-link-flapping", "network-link-flapping")


def fleet(count=96, per_rack=8, racks_a_zone=4, random=None):
    """Racks of nodes in zones, and a driver version that has nothing to do with either."""
    random = random or Random(1)
    return {
        f"n{at:03}": {
            "rack": f"r{at // per_rack}",
            "zone": f"z{at // per_rack // racks_a_zone}",
            "driver": random.choice(("550.54", "570.86")),
        }
        for at in range(count)
    }


def nodes_of(places, label, value):
    return [node for node, of in places.items() if of[label] == value]


@pytest.mark.parametrize(
    ("population", "marked", "drawn", "least"), [(20, 5, 8, 3), (50, 10, 10, 1), (9, 9, 4, 4)]
)
def test_the_tail_is_the_sum_of_exact_counts(population, marked, drawn, least):
    ways = sum(
        comb(marked, hit) * comb(population - marked, drawn - hit)
        for hit in range(least, min(marked, drawn) + 1)
    )
    assert tail(population, marked, drawn, least) == pytest.approx(ways / comb(population, drawn))


def test_more_than_there_can_be_has_no_chance():
    assert tail(20, 3, 8, 4) == 0.0


def test_a_rack_with_most_of_the_faults_is_named_once_and_with_its_chance():
    places = fleet()
    bad = [*nodes_of(places, "rack", "r3")[:6], "n000", "n050"]
    (found,) = shared({HOT: bad}, places)
    assert (found.label, found.value, len(found.nodes)) == ("rack", "r3", 6)
    assert (found.with_label, found.with_fault, found.all_nodes) == (8, 8, 96)
    assert found.chance < 1e-4
    assert "6 of 8 nodes with rack=r3" in found.summary
    assert "2 of 88 others" in found.summary


def test_a_driver_version_across_racks_is_named_and_no_rack():
    places = fleet()
    bad = nodes_of(places, "driver", "570.86")[:30]
    (found,) = shared({HOT: bad}, places)
    assert (found.label, found.value) == ("driver", "570.86")
    assert found.times == inf


def test_labels_on_the_very_same_nodes_are_told_together():
    places = {n: of | {"switch": f"leaf-{of['rack']}"} for n, of in fleet().items()}
    (found,) = shared({HOT: nodes_of(places, "rack", "r3")}, places)
    assert {found.label, *(one.partition("=")[0] for one in found.alike)} == {"rack", "switch"}


def test_two_racks_are_two_causes():
    places = fleet()
    bad = [*nodes_of(places, "rack", "r1"), *nodes_of(places, "rack", "r9")]
    assert {one.value for one in shared({LINK: bad}, places)} == {"r1", "r9"}


def test_a_whole_zone_is_one_cause_and_not_one_a_rack():
    places = fleet()
    (found,) = shared({HOT: nodes_of(places, "zone", "z1")}, places)
    assert (found.label, found.value) == ("zone", "z1")


def test_faults_all_over_have_nothing_in_common():
    places = fleet()
    assert shared({HOT: places}, places) == []


def test_chance_alone_names_something_in_fewer_than_one_fleet_of_a_hundred():
    random, named = Random(8), 0
    for _ in range(400):
        places = fleet(random=random)
        bad = random.sample(sorted(places), random.randint(3, 30))
        named += bool(shared({HOT: bad}, places))
    assert named <= 4


def test_two_nodes_share_nothing_worth_telling():
    places = fleet(per_rack=2)
    assert shared({HOT: nodes_of(places, "rack", "r3")}, places) == []


def test_nodes_without_labels_are_left_out():
    assert shared({HOT: ["x", "y", "z", "w"]}, fleet()) == []
