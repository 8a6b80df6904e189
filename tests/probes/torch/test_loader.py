from __future__ import annotations

import multiprocessing
import time
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

import gpudiag.probes.torch as gd
from gpudiag.probes.torch.batch import BatchReader
from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.loader import Loader
from tests.probes.torch.training import data
from tests.running import wait_for

IDS = torch.zeros(4, 128, dtype=torch.int64)


class Sleepy(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.01)
        return torch.zeros(3)


class Gated(Sleepy):
    """Gives a sample for each time that its gate is opened."""

    def __init__(self) -> None:
        self.gate = multiprocessing.Semaphore(0)

    def __getitem__(self, index: int) -> torch.Tensor:
        self.gate.acquire()
        return torch.zeros(3)


def taken(loader: Loader, steps: int = 1) -> dict[str, float]:
    return {n.removeprefix("gpudiag_train_"): v for n, _, v in loader.take(steps)}


@pytest.fixture
def loader() -> Loader:
    gd.attach(socket="/nonexistent/agent.sock")
    assert CURRENT.session is not None
    return CURRENT.session.loader


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (IDS, (4, 128)),
        ({"labels": torch.zeros(9), "input_ids": IDS}, (4, 128)),
        ([torch.zeros(8, 3, 32, 32), torch.zeros(8)], (8, 0)),
        (({"x": torch.zeros(5, 7)}, 1), (5, 0)),
        ("text", (0, 0)),
        ([], (0, 0)),
    ],
)
def test_a_batch_shows_its_samples_and_tokens(batch: Any, expected: tuple[int, int]) -> None:
    assert BatchReader().read(batch) == expected


def test_a_batch_of_another_kind_is_looked_at_anew() -> None:
    read = BatchReader().read
    assert read({"input_ids": IDS}) == (4, 128)
    assert read([torch.zeros(6, 2)]) == (0, 0)
    assert read([torch.zeros(6, 2)]) == (6, 0)


def test_the_wait_is_what_next_takes(loader: Loader) -> None:
    began, elsewhere = time.perf_counter(), 0.0
    for _ in DataLoader(Sleepy(), batch_size=2):
        before = time.perf_counter()
        time.sleep(0.02)
        elsewhere += time.perf_counter() - before
    waited = time.perf_counter() - began - elsewhere
    values = taken(loader, steps=3)
    assert 0.02 <= values["data_wait_seconds"] <= waited / 3
    assert values["micro_batches"] == 1
    assert values["samples_total"] == 6


def test_a_worker_that_is_slow_leaves_the_queue_empty(loader: Loader) -> None:
    dataset = Gated()
    dataset.gate.release()
    iterator = iter(DataLoader(dataset, batch_size=1, num_workers=1))
    next(iterator)
    values = taken(loader)
    assert (values["loader_queue_depth"], values["loader_queue_capacity"]) == (0, 2)
    for _ in range(3):
        dataset.gate.release()
    next(iterator)
    wait_for(lambda: ("gpudiag_train_loader_queue_depth", {}, 2.0) in loader._queue())
    assert taken(loader)["loader_queue_depth"] == 2


def test_without_workers_there_is_no_queue(loader: Loader) -> None:
    iterator = iter(data(workers=0))
    next(iterator)
    assert "loader_queue_depth" not in taken(loader)


def test_a_named_loader_leaves_evaluation_out(loader: Loader) -> None:
    training, evaluation = data(samples=16), data(samples=800)
    loader.name(training)
    list(training)
    list(evaluation)
    assert taken(loader)["samples_total"] == 16


def test_an_iterator_is_not_kept_alive(loader: Loader) -> None:
    iterator = iter(data(workers=2))
    next(iterator)
    workers = iterator._workers  # type: ignore[attr-defined]
    del iterator
    assert not any(worker.is_alive() for worker in workers)
    assert "loader_queue_depth" not in taken(loader)


def test_the_users_word_goes_before_what_batches_show() -> None:
    telling = Loader(Features(torch))
    iterator = iter(data())
    telling.fetched(iterator, 10, IDS)
    telling.tell(samples=2, tokens=100)
    telling.fetched(iterator, 10, IDS)
    values = taken(telling)
    assert (values["samples_total"], values["tokens_total"]) == (2, 100)
    assert values["sequence_length"] == 50
