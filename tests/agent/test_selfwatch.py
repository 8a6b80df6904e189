import os

import pytest

from gpudiag.agent.selfwatch import CPU_BUDGET, MAX_STRETCH, Cost, SelfWatch, cost_of


class Spender:
    """Uses a share of one core, as the test says."""

    def __init__(self):
        self.now = self.cpu = 0.0
        self.watch = SelfWatch(lambda: Cost(self.cpu, 1e6))

    def pass_(self, seconds, share):
        for _ in range(seconds // 5):
            self.now += 5
            self.cpu += 5 * share
            self.watch.samples(self.now)
        return self.watch.stretch


def test_within_the_budget_nothing_is_shed():
    assert Spender().pass_(300, CPU_BUDGET * 0.9) == 1.0


def test_beyond_it_the_cadence_is_stretched_up_to_a_bound():
    spender = Spender()
    assert spender.pass_(60, CPU_BUDGET * 3) == 2.0
    assert spender.pass_(3600, CPU_BUDGET * 3) == MAX_STRETCH


def test_it_comes_back_when_the_load_has_gone():
    spender = Spender()
    spender.pass_(60, CPU_BUDGET * 3)
    assert spender.pass_(120, CPU_BUDGET / 10) == 1.0


def test_a_clock_set_back_does_not_freeze_the_budget():
    spender = Spender()
    spender.pass_(300, 0.0)
    spender.now -= 3600
    assert spender.pass_(60, CPU_BUDGET * 3) == 2.0


@pytest.mark.parametrize("children", [[], [os.getppid()], [2**22 + 1]])
def test_the_cost_is_that_of_this_process_and_of_children_that_are_there(children):
    cost = cost_of(children)
    assert cost.cpu_seconds > 0
    assert cost.resident_bytes > 1e6
