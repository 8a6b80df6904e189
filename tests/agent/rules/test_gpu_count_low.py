from gpudiag.agent.rules.contract import Healthy
from tests.agent.rules.seam import diagnoses, judge

EXPECTED = {"gpudiag_gpus_expected": "8x20"}


def test_seven_of_eight() -> None:
    found = diagnoses(judge("gpu-count-low", {"gpudiag_gpus": "7x20", **EXPECTED}))[""]
    assert found.summary == "The driver lists 7 GPUs where 8 are expected."


def test_eight_of_eight_is_healthy() -> None:
    said = judge("gpu-count-low", {"gpudiag_gpus": "8x20", **EXPECTED})
    assert said == [Healthy(())]


def test_without_an_expectation_a_fall_is_told_less_surely() -> None:
    found = diagnoses(judge("gpu-count-low", {"gpudiag_gpus": "8x10 7x10"}))[""]
    assert (found.confidence, found.severity) == (0.6, "warning")
    assert found.missing == ("gpudiag_gpus_expected",)


def test_without_an_expectation_the_return_is_healthy() -> None:
    assert judge("gpu-count-low", {"gpudiag_gpus": "8x10 7x5 8x5"}) == [Healthy(())]
    assert judge("gpu-count-low", {"gpudiag_gpus": "7x10"}) == []


def test_the_missing_one_is_named() -> None:
    there = {f'gpudiag_gpu_power_watts{{uuid="GPU-{i}",gpu="{i}"}}': "300x20" for i in range(7)}
    gone = {'gpudiag_gpu_power_watts{uuid="GPU-7",gpu="7"}': "300x5 stale"}
    said = judge("gpu-count-low", {"gpudiag_gpus": "7x20", **EXPECTED, **there, **gone})
    assert "Missing: GPU 7." in diagnoses(said)[""].summary


def test_nodes_are_judged_apart() -> None:
    nodes = {f'gpudiag_gpus{{node="n{i}"}}': f"{7 + i}x20" for i in range(2)}
    wanted = {f'gpudiag_gpus_expected{{node="n{i}"}}': "8x20" for i in range(2)}
    said = judge("gpu-count-low", {**nodes, **wanted})
    assert said[1] == Healthy((("node", "n1"),))
    assert diagnoses(said).keys() == {"n0"}
