import pytest

from gpudiag.agent.rules.contract import Diagnosis, Healthy, Unknown
from gpudiag.agent.rules.replica_does_not_fit import _size_alone
from tests.agent.rules.seam import judge

SYMPTOM = "replica-does-not-fit"
NEED = 'gpudiag_budget_bytes{server="a",kind="total"}'
READY = 'gpudiag_serving_ready{server="a"}'


def gpus(*used: str) -> dict[str, str]:
    total = {f'gpudiag_gpu_memory_total_bytes{{uuid="{n}"}}': "80x9" for n in range(len(used))}
    return total | {
        f'gpudiag_gpu_memory_used_bytes{{uuid="{n}"}}': f"{u}x9" for n, u in enumerate(used)
    }


def test_enough_in_pieces_is_not_enough() -> None:
    (said,) = judge(SYMPTOM, gpus("50", "50") | {NEED: "40x9"})
    assert isinstance(said, Diagnosis)


def test_one_piece_is() -> None:
    assert judge(SYMPTOM, gpus("50", "10") | {NEED: "40x9"}) == [Healthy((("server", "a"),))]


def test_one_that_runs_has_found_its_place() -> None:
    said = judge(SYMPTOM, gpus("79") | {NEED: "70x9", READY: "1x9"})
    assert said == [Healthy((("server", "a"),))]


def test_what_may_be_spread_over_gpus_cannot_be_told() -> None:
    assert isinstance(judge(SYMPTOM, gpus("0", "0") | {NEED: "120x9"})[0], Unknown)


@pytest.mark.parametrize(("free", "alone"), [("19.77/22.05", True), ("31.44/47.38", False)])
def test_a_refusal_speaks_of_size_where_nobody_else_is_there(free: str, alone: bool) -> None:
    assert _size_alone(f"Free memory on device ({free} GiB) on startup is less", 0.85) is alone
