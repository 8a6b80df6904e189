"""GPU times from events: a GPU that runs behind the host, played."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gpudiag.probes.torch as gd
from gpudiag.probes.torch.cuda_times import SPANS, CudaTimes
from gpudiag.probes.torch.cuda_times import Gpu as Told
from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.features import CHANGED_AFTER, Features
from gpudiag.probes.torch.waits import Waits
from tests.probes.torch.peer import Peer


class Gpu:
    """Events are stamped with `time` milliseconds; the GPU has come to those up to `reached`."""

    def __init__(self) -> None:
        self.time = 0.0
        self.reached = 0.0
        self.capturing = False
        self.stream = Stream("training")
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


class Stream(str):
    """A stream that is its name."""

    __slots__ = ()

    def wait_event(self, event: object) -> None:
        assert event


@pytest.fixture
def times(gpu: Gpu) -> CudaTimes:
    def synchronize() -> None:
        gpu.synchronized += 1

    cuda = SimpleNamespace(
        Event=Event,
        Stream=Stream,
        is_current_stream_capturing=lambda: gpu.capturing,
        current_stream=lambda: gpu.stream,
        is_initialized=lambda: True,
        synchronize=synchronize,
    )
    built = SimpleNamespace(_cuda_memoryStats=lambda *_: {})
    module: Any = SimpleNamespace(cuda=cuda, _C=built)
    return CudaTimes(module, Features(module))


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


def told_at_once(times: CudaTimes, gpu: Gpu) -> Told:
    """What is told once the GPU has come to the end of the step that is looked at."""
    times.ended(spoiled=False)
    gpu.reached = gpu.time
    times.ended(spoiled=False)
    return times.take()


def waited(times: CudaTimes, gpu: Gpu, module: str, of: str) -> dict[str, float] | None:
    """A step in which code of `module` has the stream `of` wait 7 ms for another."""

    def wait_event(_stream: Stream, _event: object) -> None:
        gpu.time += 7.0

    namespace: dict[str, Any] = {"__name__": module, "wait": times.stream_wait(wait_event)}
    exec("def ask(stream): wait(stream, 'event')", namespace)
    times.begin(0)
    namespace["ask"](Stream(of))
    return told_at_once(times, gpu).comm


@pytest.mark.parametrize(
    ("module", "of", "expected"),
    [
        ("torch.distributed.fsdp._fully_shard._fsdp_collectives", "training", {"": 0.007}),
        ("torch.distributed.fsdp._fully_shard._fsdp_collectives", "all_gather", {}),
        ("prefetcher", "training", {}),
    ],
)
def test_only_what_distributed_has_the_stream_of_training_wait_for_is_communication(
    times: CudaTimes, gpu: Gpu, module: str, of: str, expected: dict[str, float]
) -> None:
    assert waited(times, gpu, module, of) == pytest.approx(expected)


def test_a_work_waited_for_on_the_stream_of_training_goes_to_its_group(
    times: CudaTimes, gpu: Gpu
) -> None:
    def wait(_work: object) -> bool:
        gpu.time += 3.0
        return True

    work, group = object(), SimpleNamespace(group_name="3")
    features: Any = SimpleNamespace(group_label=lambda _: ("3", "tp", [0, 1]))
    waits = Waits(torch, features, times)
    assert waits.issuing("allreduce")(lambda _: work)(group) is work
    times.begin(0)
    assert waits.waiting(wait)(work) is True
    assert waits.seen == 1
    assert told_at_once(times, gpu).comm == pytest.approx({"3:tp": 0.003})


@pytest.mark.parametrize("sees_streams", [True, False])
def test_waits_of_another_stream_need_that_streams_are_seen(
    times: CudaTimes, gpu: Gpu, sees_streams: bool
) -> None:
    if not sees_streams:
        times._features.stream_wait.look(None)
    times.begin(0)
    gpu.stream = Stream("all_gather")
    assert times.before() is None
    gpu.stream = Stream("training")
    assert (told_at_once(times, gpu).sampled is not None) == sees_streams


def test_events_that_fail_leave_the_values_out(
    times: CudaTimes, gpu: Gpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(Event, "record", refuse)
    for count in range(CHANGED_AFTER):
        step(times, gpu, count)
    assert times.take().step is None
    assert not times.active()


def test_a_run_tells_the_gpus_time_and_not_the_hosts(
    times: CudaTimes, gpu: Gpu, peer: Peer
) -> None:
    gd.attach(socket=peer.path)
    session = CURRENT.session
    assert session is not None
    session.cuda = times
    for _ in range(6):
        with gd.phase("data"):
            gpu.time += 500.0
        gpu.time += 1500.0
        gpu.reached = gpu.time
        session._packet_at = session.steps.due = 0
        gd.step()
    gd.detach()
    found = {v[0]: v[2] for p in peer.to_the_end() if "values" in p for v in p["values"]}
    assert found["gpudiag_train_step_seconds"] == pytest.approx(2.0)
    assert found["gpudiag_train_compute_seconds"] == pytest.approx(1.5)
    assert found["gpudiag_train_data_wait_seconds"] < 0.1


def test_nothing_is_looked_at_outside_a_step(times: CudaTimes) -> None:
    assert times.before() is None
    times.after(None, "comm")
    assert times.take().comm is None
