from __future__ import annotations

from gpudiag.probes.torch.watch import FLOOR, Watch


def watched(*looks: tuple[int, float]) -> list[float]:
    watch = Watch()
    return [told for count, now in looks if (told := watch.look(count, now)) is not None]


def test_a_stall_is_told_once() -> None:
    assert watched((1, 0), (2, 1), (3, 2), (3, 2 + FLOOR), (3, 500)) == [FLOOR]


def test_long_steps_are_given_ten_times_their_length() -> None:
    assert watched((1, 0), (2, 20), (3, 40), (3, 140), (3, 241)) == [201]


def test_before_the_second_step_nothing_is_known() -> None:
    assert watched((1, 0), (1, 3000)) == []


def test_a_new_stall_is_told_again() -> None:
    assert len(watched((1, 0), (2, 1), (2, 70), (3, 71), (3, 800))) == 2
