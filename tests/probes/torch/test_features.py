from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gpudiag.probes.torch as gd
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.torch.arrivals import Arrivals
from gpudiag.probes.torch.captures import Captures
from gpudiag.probes.torch.cuda_times import CudaTimes
from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.features import (
    CHANGED_AFTER,
    FUNCTIONAL,
    Feature,
    Features,
    Place,
    Unpickler,
)
from gpudiag.probes.torch.memory import Memory
from tests.probes.torch.stand_in import RESTS_ON, stand_in
from tests.probes.torch.training import train

REAL = Features(torch)
ARGUMENTS = {"cuda_stamp": 0, "cuda_stream": 0, "cuda_elapsed": 2, "profiler_busy": 0}
DDP = torch.nn.parallel.DistributedDataParallel
C10D = torch._C._distributed_c10d
PRIVATE = {
    "loader_iterator": (torch.utils.data.dataloader, "_BaseDataLoaderIter"),
    "ddp_rate": (DDP, "_set_ddp_runtime_logging_sample_rate"),
    "ddp_logging": (DDP, "_get_ddp_logging_data"),
    "flight_recorder": (C10D, "_dump_fr_trace"),
    "profiler_busy": (torch.autograd, "_profiler_enabled"),
    "work_wait": (C10D, "Work"),
    "collectives": (C10D, "ProcessGroup"),
    "group_label": (C10D, "ProcessGroup"),
}
CUDA_ONLY = {
    "nccl_recorder", "memory_stats", "pinned_stats", "oom_observer", "record_history", "snapshot",
    "cuda_elapsed", "cuda_stamp", "cuda_stream", "stream_wait",
}  # fmt: skip


@pytest.mark.skipif(
    not torch.__version__.startswith("2.13.") or torch.version.cuda is not None,
    reason="what other releases and CUDA builds have differs",
)
def test_every_private_api_of_this_torch_is_told() -> None:
    said = Features(torch).said()
    # Whether functional collectives are there depends on who has imported them.
    missing = {name for name, status in said.items() if status == "missing"}
    assert missing - {"functional_wait"} == CUDA_ONLY
    assert set(PRIVATE) <= {name for name, status in said.items() if status == "found"}


@pytest.mark.parametrize("name", PRIVATE)
def test_a_missing_api_is_told_and_training_goes_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, attribute = PRIVATE[name]
    if not hasattr(owner, attribute):
        pytest.skip(f"torch {torch.__version__} has no {attribute}")
    plain = train(1)
    monkeypatch.delattr(owner, attribute)
    assert Features(torch).said()[name] == "missing"
    monkeypatch.undo()
    monkeypatch.setattr("gpudiag.probes.torch.session.Features", without(owner, attribute))
    gd.attach(socket=tmp_path / "nobody")
    assert CURRENT.session is not None
    assert CURRENT.session.features.said()[name] == "missing"
    assert train(1) == plain


def without(owner: Any, attribute: str) -> Callable[[Any], Features]:
    """`Features` of a torch that lacks one name, which others may go on to use."""

    def look(module: Any) -> Features:
        with pytest.MonkeyPatch.context() as patch:
            patch.delattr(owner, attribute)
            return Features(module)

    return look


def registry(features: Features) -> dict[str, Feature | Place]:
    return {n: f for n, f in vars(features).items() if isinstance(f, Feature | Place)}


def refuse(*_: object, **__: object) -> Any:
    raise TypeError("unexpected argument")


@pytest.fixture
def functional(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Puts a stand-in's functional collectives where the real ones are looked for."""

    def put(module: Any) -> None:
        monkeypatch.setitem(sys.modules, FUNCTIONAL, module.distributed._functional_collectives)

    return put


def test_every_feature_has_its_name_in_torch_and_the_tests_know_it() -> None:
    features = Features(torch)
    assert {name: feature.name for name, feature in registry(features).items()} == {
        name: name for name in features.said()
    }
    assert set(RESTS_ON) == set(features.said())


@pytest.mark.parametrize("name", RESTS_ON)
def test_a_feature_is_missing_where_its_name_is(
    name: str, functional: Callable[[Any], None]
) -> None:
    whole = stand_in(refuse)
    functional(whole)
    assert set(Features(whole).said().values()) == {"found"}
    without = stand_in(refuse, RESTS_ON[name])
    functional(without)
    found = getattr(Features(without), name)
    assert found.status == "missing"
    assert not found


@pytest.mark.parametrize("name", [n for n in RESTS_ON if isinstance(getattr(REAL, n), Feature)])
def test_a_feature_that_changed_says_so_and_is_left_alone(name: str) -> None:
    feature = getattr(Features(stand_in(refuse)), name)
    arguments = [object()] * ARGUMENTS.get(name, 1)
    assert [feature(*arguments) for _ in range(CHANGED_AFTER)] == [None] * CHANGED_AFTER
    assert feature.status.startswith("changed: ")
    assert not feature


def test_without_any_feature_nothing_is_measured_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, FUNCTIONAL, raising=False)
    features = Features(SimpleNamespace())
    assert {*features.said().values()} == {"missing"}
    on_gpu: Any = SimpleNamespace(cuda=SimpleNamespace(is_initialized=lambda: True))
    assert Memory(on_gpu, features).take(1) == []
    assert not CudaTimes(on_gpu, features).active()
    arrivals = Arrivals(features)
    assert (arrivals.sequences(), arrivals.entries(1e9)) == ([], {})
    with pytest.raises(Unavailable, match="no CUDA allocator"):
        Captures(features, tmp_path, lambda: 1, lambda: True).snapshot("asked")


def test_an_allocator_that_no_gpu_uses_is_not_asked(tmp_path: Path) -> None:
    captures = Captures(Features(stand_in(refuse)), tmp_path, lambda: 1, lambda: False)
    for ask in (lambda: captures.snapshot("asked"), lambda: captures.record(2)):
        with pytest.raises(Unavailable, match="no CUDA allocator"):
            ask()


@pytest.mark.parametrize("name", [n for n in RESTS_ON if isinstance(getattr(REAL, n), Feature)])
def test_training_is_the_same_while_a_feature_fails(name: str, tmp_path: Path) -> None:
    plain = train(1, workers=1)
    gd.attach(socket=tmp_path / "nobody", kernel_interval=1e-6)
    assert CURRENT.session is not None
    setattr(CURRENT.session.features, name, Feature(name, refuse))
    assert train(1, workers=1) == plain


def test_an_api_that_answers_otherwise_is_left_alone_after_some_tries() -> None:
    calls = []

    def other(*args: object) -> None:
        calls.append(args)
        raise TypeError("unexpected argument")

    feature = Feature("recorder", other)
    assert [feature(True) for _ in range(CHANGED_AFTER + 2)] == [None] * (CHANGED_AFTER + 2)
    assert len(calls) == CHANGED_AFTER
    assert feature.status == "changed: TypeError: unexpected argument"


def test_one_failure_now_and_then_is_not_a_change() -> None:
    answers = iter([1, None, 2, None, 3, None, 4])

    def call() -> int:
        answer = next(answers)
        if answer is None:
            raise RuntimeError("no process group")
        return answer

    feature = Feature("recorder", call)
    assert [feature() for _ in range(7)] == [1, None, 2, None, 3, None, 4]
    assert feature.status == "found"


def test_a_ddp_log_of_another_shape_gives_no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DDP, "_get_ddp_logging_data", lambda _: {"renamed": 1}, raising=False)
    module = type("Module", (), {"device_type": "cpu"})()
    monkeypatch.setattr(DDP, "_set_ddp_runtime_logging_sample_rate", lambda *_: None)
    from gpudiag.probes.torch.ddp import DdpWait

    ddp = DdpWait(Features(torch))
    ddp.add(module)
    assert ddp.take(lambda _: "default") is None


def test_a_dump_may_not_name_code() -> None:
    import io

    with pytest.raises(pickle.UnpicklingError, match="plain values"):
        Unpickler(io.BytesIO(pickle.dumps(print))).load()


def test_no_other_module_names_a_private_api() -> None:
    folder = Path(gd.__file__).parent
    names = [attribute for _, attribute in PRIVATE.values() if attribute.startswith("_")]
    names += [
        "_dump_nccl_trace",
        "_cuda_attach",
        "_local_tensor",
        "_record_memory_history",
        "torch._C",
        "_task_info",
    ]
    for file in folder.glob("*.py"):
        if file.name != "features.py":
            assert not [name for name in names if name in file.read_text()], file.name
