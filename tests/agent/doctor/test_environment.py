from __future__ import annotations

import pytest

from gpudiag.agent.doctor.environment import lines


def test_only_what_matters_is_shown() -> None:
    found = lines({"HOME": "/root", "NCCL_DEBUG": "WARN", "CUDA_VISIBLE_DEVICES": "0,1"})
    assert [(line.check, line.seen) for line in found] == [
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("NCCL_DEBUG", "WARN"),
    ]
    assert {line.state for line in found} == {"ok"}


def test_nothing_set_is_said() -> None:
    assert lines({"HOME": "/root"})[0].check == "variables"


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("CUDA_VISIBLE_DEVICES", "", "hides every GPU"),
        ("CUDA_VISIBLE_DEVICES", "-1", "hides every GPU"),
        ("NCCL_P2P_DISABLE", "1", "NVLink"),
        ("NCCL_IB_DISABLE", "1", "TCP"),
        ("CUDA_LAUNCH_BLOCKING", "1", "debugging"),
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64/stubs:/lib", "stub"),
    ],
)
def test_a_value_with_consequences_is_noted(name: str, value: str, word: str) -> None:
    (line,) = lines({name: value})
    assert line.state == "note"
    assert word in line.todo


@pytest.mark.parametrize("name", ["TORCH_HUB_TOKEN", "NVIDIA_API_KEY", "VLLM_API_KEY"])
def test_secrets_are_named_never_shown(name: str) -> None:
    (line,) = lines({name: "hunter2"})
    assert line.seen == "set, not shown"


def test_credentials_in_an_address_are_hidden() -> None:
    (line,) = lines({"VLLM_URL": "http://me:hunter2@host/x"})
    assert line.seen == "http://***@host/x"


def test_a_long_value_is_cut() -> None:
    assert len(lines({"LD_LIBRARY_PATH": "/x:" * 500})[0].seen) < 250
