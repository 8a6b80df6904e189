"""GPU times from events: a GPU that runs behind the host, played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpudiag.probes.torch.cuda_times import SPANS, CudaTimes
from gpudiag.probes.torch.features import Features


class Gpu:
    """Events are stamped with `time` milliseconds; the GPU has come to those up to `reached`."""

    def __init__(self) -> None:
        self.time = 0.0
        self.reached = 0.0
        self.capturing = False
        self.stream = "training"
        self.synchronized = 0


class Event:
    gpu: Gpu

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.at = -1.0

    def record(self) -> None:
        self.at = self.gpu.time

    def query(self) -> bool:
        return self.at <= self.gpu.reached

    def elapsed_time(self, later: Event) -> float:
        assert self.query()
        assert later.query()
        return later.at - self.at


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    monkeypatch.setattr(Event, "gpu", made, raising=False)
    return made


@pytest.fixture
def times(gpu: Gpu) -> CudaTimes:
    def synchronize() -> None:
        gpu.synchronized += 1

    cuda = SimpleNamespace(
        Event=Event,
        Stream=type("Stream", (), {"wait_event": lambda *_: None}),
        is_current_stream_capturing=lambda: gpu.capturing,
        current_stream=lambda: gpu.stream,
        is_initialized=lambda: True,
        synchronize=synchronize,
    )
    built = SimpleNamespace(_cuda_memoryStats=lambda *_: {})
    torch: Any = SimpleNamespace(cuda=cuda, _C=built)
    features: Any = SimpleNamespace(**vars(Features(torch)))
    return CudaTimes(torch, features)


def step(times: CudaTimes, gpu: Gpu, count: int, *, wait: float = 0.0, work: float = 10.0) -> None:
    """A step that is looked at: `wait` ms for a collective, `work` ms of kernels."""
    times.begin(count)
    span = times.before()
    gpu.time += wait
    times.after(span, "comm", "default")
    gpu.time += work
    times.ended(spoiled=False)


def test_it_is_active_where_there_are_events(times: CudaTimes) -> None:
    assert times.active()


def test_a_step_is_told_once_the_gpu_has_come_to_its_end(times: CudaTimes, gpu: Gpu) -> None:
    step(times, gpu, 0, wait=4.0)
    assert times.take().sampled is None
    gpu.reached = gpu.time
    times.ended(spoiled=False)
    told = times.take()
    assert told.sampled == pytest.approx(0.014)
    assert told.comm is not None
    assert told.comm["default"] == pytest.approx(0.004)
    assert gpu.synchronized == 0


def test_steps_between_two_looks_share_the_time(times: CudaTimes, gpu: Gpu) -> None:
    step(times, gpu, 0)
    gpu.time += 30.0
    step(times, gpu, 4)
    gpu.reached = gpu.time
    times.ended(spoiled=False)
    assert times.take().step == pytest.approx(0.010)


def test_waiting_for_data_stands_apart(times: CudaTimes, gpu: Gpu) -> None:
    times.begin(0)
    span = times.before(work=False)
    gpu.time += 5.0
    times.after(span, "data")
    times.ended(spoiled=False)
    gpu.reached = gpu.time
    times.ended(spoiled=False)
    told = times.take()
    assert told.data == pytest.approx(0.005)
    assert told.comm == {}


def test_a_step_with_a_checkpoint_in_it_is_not_told(times: CudaTimes, gpu: Gpu) -> None:
    times.begin(0)
    times.ended(spoiled=True)
    gpu.reached = gpu.time = 9.0
    times.ended(spoiled=False)
    assert times.take().sampled is None


def test_in_a_graph_capture_nothing_is_recorded(times: CudaTimes, gpu: Gpu) -> None:
    gpu.capturing = True
    step(times, gpu, 0)
    gpu.reached = gpu.time
    times.ended(spoiled=False)
    assert times.take().sampled is None


def test_a_step_of_too_many_waits_is_given_up(times: CudaTimes, gpu: Gpu) -> None:
    times.begin(0)
    for _ in range(SPANS + 1):
        times.after(times.before(), "comm")
    times.ended(spoiled=False)
    gpu.reached = gpu.time
    times.ended(spoiled=False)
    assert times.take().sampled is None


def test_a_gpu_that_never_arrives_costs_a_bounded_number_of_events(
    times: CudaTimes, gpu: Gpu
) -> None:
    gpu.reached = -1.0
    for count in range(1000):
        step(times, gpu, count)
    assert len(times._samples) <= 4
    assert len(times._marks) <= 16


def test_nothing_is_looked_at_outside_a_step(times: CudaTimes) -> None:
    assert times.before() is None
    times.after(None, "comm")
    assert times.take().comm is None
