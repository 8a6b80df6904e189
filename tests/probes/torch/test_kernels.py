from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gpudiag.probes.torch.features import Features
from gpudiag.probes.torch.kernels import Kernels, kind, totals


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "gemm"),
        ("nvjet_tst_128x256_64x4", "gemm"),
        ("aten::addmm", "gemm"),
        ("flash_fwd_kernel", "attention"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "comm"),
        ("Memcpy DtoD (Device -> Device)", "memory"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>", "other"),
    ],
)
def test_a_kernel_has_a_kind_by_its_name(name: str, expected: str) -> None:
    assert kind(name) == expected


def test_times_of_a_kind_add_up_in_seconds() -> None:
    rows = [
        SimpleNamespace(key="gemm_a", self_device_time_total=2e6, self_cpu_time_total=0),
        SimpleNamespace(key="gemm_b", self_device_time_total=1e6, self_cpu_time_total=5e6),
    ]
    assert totals(rows, on_gpu=True) == {"gemm": 3.0}
    assert totals(rows, on_gpu=False) == {"gemm": 5.0}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 0.25
        return self.now


def kernels(interval: float | None, told: list[Any]) -> Kernels:
    tell = lambda *args, **fields: told.append((args, fields))  # noqa: E731
    return Kernels(torch, Features(torch), interval, tell, Clock())


def test_one_step_is_profiled_and_its_cost_told() -> None:
    told: list[Any] = []
    made = kernels(0.5, told)
    while not made.boundary():
        pass
    torch.randn(64, 64) @ torch.randn(64, 64)
    assert not made.boundary()
    assert {labels["kind"] for _, labels, _ in made.take(1)} >= {"gemm"}
    assert made.take(1) == []
    assert told[0][1]["cost"] > 0


@pytest.mark.parametrize("interval", [0.0, None])
def test_on_a_cpu_it_is_off_unless_asked_for(interval: float | None) -> None:
    made = kernels(interval, [])
    assert not any(made.boundary() for _ in range(1000))


def test_the_users_own_profiler_is_left_alone() -> None:
    made = kernels(0.5, [])
    with torch.profiler.profile():
        assert not any(made.boundary() for _ in range(20))
    assert any(made.boundary() for _ in range(20))
    made.close()
    assert not Features(torch).profiler_busy()
