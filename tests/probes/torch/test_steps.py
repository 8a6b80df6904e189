from __future__ import annotations

from gpudiag.probes.torch.steps import Steps


def marked(*seconds: float) -> Steps:
    ends = iter([int(s * 1e9) for s in seconds])
    steps = Steps(lambda _: None, clock=lambda: next(ends))
    for _ in seconds:
        steps.mark()
    return steps


def test_the_first_step_is_counted_and_not_timed() -> None:
    steps = marked(5.0)
    assert steps.take(steps.done()) == [("gpudiag_train_steps_total", {}, 1.0)]


def test_the_mean_is_over_the_steps_since_the_last_take() -> None:
    steps = marked(1.0, 1.2, 1.8)
    assert steps.done() == 2
    values = {name: value for name, _, value in steps.take(2)}
    assert abs(values["gpudiag_train_step_seconds"] - 0.4) < 1e-9
    assert values["gpudiag_train_steps_total"] == 3


def test_the_histogram_is_cumulative_over_bounds_and_takes() -> None:
    ends = iter([0.5, 0.504, 0.904, 100.0])
    steps = Steps(lambda _: None, clock=lambda: int(next(ends) * 1e9))
    for number in (2, 2):
        for _ in range(number):
            steps.mark()
        values = steps.take(steps.done())
    buckets = {labels["le"]: value for name, labels, value in values if labels}
    assert buckets["0.0025"] == 0
    assert (buckets["0.005"], buckets["0.25"], buckets["0.5"]) == (1, 1, 2)
    assert (buckets["60.0"], buckets["+Inf"]) == (2, 3)


def test_a_boundary_is_called_only_when_due() -> None:
    called: list[int] = []
    times = iter([10, 20, 30])
    steps = Steps(called.append, clock=lambda: next(times))
    steps.due = 15
    for _ in range(3):
        steps.mark()
    assert called == [20, 30]
