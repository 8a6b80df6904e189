from __future__ import annotations

from gpudiag.probes.torch.optimizers import UNUSED_AFTER, Optimizers


class Optimizer:
    """Anything that can be referred to weakly."""


def ended(optimizers: Optimizers, order: list[Optimizer], marks: list[int]) -> int:
    before = len(marks)
    for optimizer in order:
        optimizers.stepped(optimizer, (), {})
    return len(marks) - before


def made() -> tuple[Optimizers, list[int], Optimizer, Optimizer]:
    marks: list[int] = []
    return Optimizers(lambda: marks.append(1)), marks, Optimizer(), Optimizer()


def test_one_optimizer_is_a_step_each_time() -> None:
    optimizers, marks, a, _ = made()
    assert ended(optimizers, [a, a, a], marks) == 3


def test_two_in_turn_are_one_step() -> None:
    optimizers, marks, a, b = made()
    ended(optimizers, [a, b, a], marks)
    assert ended(optimizers, [b, a, b, a], marks) == 2


def test_a_critic_may_step_more_often_than_the_generator() -> None:
    optimizers, marks, a, b = made()
    optimizers.name((a, b))
    assert ended(optimizers, [a, a, a, a, a, b] * 3, marks) == 3


def test_one_that_went_out_of_use_is_waited_for_no_longer() -> None:
    optimizers, marks, a, b = made()
    optimizers.name((a, b))
    ended(optimizers, [a] * UNUSED_AFTER, marks)
    assert ended(optimizers, [a, a], marks) == 2


def test_one_that_was_deleted_is_forgotten() -> None:
    optimizers, marks, a, b = made()
    optimizers.name((a, b))
    del b
    assert ended(optimizers, [a, a], marks) == 2
    assert optimizers.known() == [a]


def test_only_the_named_ones_count() -> None:
    optimizers, marks, a, b = made()
    optimizers.name((a,))
    assert ended(optimizers, [b, b, a, b], marks) == 1


def test_a_manual_loop_takes_over() -> None:
    optimizers, marks, a, _ = made()
    optimizers.stepped(a, (), {})
    optimizers.manual = True
    assert ended(optimizers, [a, a], marks) == 0
