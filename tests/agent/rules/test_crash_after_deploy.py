import pytest

from gpudiag.agent.rules._deploys import DRIVER, ENVIRONMENT, crashes
from gpudiag.agent.window import Window
from gpudiag.probes import Event


def seen(*events: tuple[float, str, str]) -> Window:
    window = Window(())
    window.now = 1000.0
    window.add([], [Event(*event) for event in events])
    return window


def test_an_exit_soon_after_its_start_counts() -> None:
    window = seen((1.0, "process", "start pid=7 name=a"), (9.0, "process", "exit pid=7 code=1"))
    assert len(crashes(window, 1800.0, 600.0).exits) == 1


@pytest.mark.parametrize("code", ["0", "-15", "143"])
def test_an_end_that_was_asked_for_does_not(code: str) -> None:
    window = seen((1.0, "process", "start pid=7"), (9.0, "process", f"exit pid=7 code={code}"))
    assert not crashes(window, 1800.0, 600.0).exits


def test_one_whose_start_is_unknown_counts_with_words_of_a_start() -> None:
    died = (9.0, "process", "exit pid=7 code=1")
    assert not crashes(seen(died), 1800.0, 600.0).exits
    words = (8.0, "log:api", "ImportError: undefined symbol: _ZN3")
    assert crashes(seen(words, died), 1800.0, 600.0).exits


def test_the_name_is_the_logs_or_the_pods() -> None:
    loop = "Warning BackOff pod/vllm-1 Back-off restarting failed container vllm"
    assert crashes(seen((1.0, "kubernetes", loop)), 1800.0, 600.0).name == "vllm-1"


@pytest.mark.parametrize(
    "line",
    [
        "CUDA driver version is insufficient for CUDA runtime version",
        "Failed to initialize NVML: Driver/library version mismatch",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    ],
)
def test_words_of_a_driver_that_does_not_fit(line: str) -> None:
    assert DRIVER.search(line)
    assert not ENVIRONMENT.search(line)
