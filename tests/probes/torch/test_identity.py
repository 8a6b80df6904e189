from __future__ import annotations

import pytest

from gpudiag.probes.torch.identity import job_of, layout_of, rank_of


def test_ranks_come_from_the_launcher() -> None:
    environment = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}
    assert rank_of(environment, None) == (5, 1, 8)
    assert rank_of({}, None) == (0, 0, 1)


@pytest.mark.parametrize(
    ("environment", "job"),
    [
        ({"GPUDIAG_JOB": "llama", "SLURM_JOB_NAME": "s"}, "llama"),
        ({"SLURM_JOB_NAME": "s", "TORCHELASTIC_RUN_ID": "t"}, "s"),
        ({"TORCHELASTIC_RUN_ID": "none"}, "train"),
        ({}, "train"),
    ],
)
def test_a_job_has_the_name_that_somebody_gave_it(environment: dict[str, str], job: str) -> None:
    assert job_of(environment, "/home/me/train.py") == job


def test_code_without_a_file_is_python() -> None:
    assert job_of({}, "-c") == job_of({}, "") == "python"


def test_a_layout_is_told_found_or_data_parallel() -> None:
    assert layout_of("pp=2", {}, 4) == "pp=2"
    assert layout_of(None, {"tp": 2}, 8) == "dp=4,tp=2,pp=1,ep=1"
    assert layout_of(None, {"fsdp": 4, "dp": 2}, 8) == "dp=2,tp=1,pp=1,ep=1,fsdp=4"
    assert layout_of(None, {}, 4) == "dp=4,tp=1,pp=1,ep=1"
