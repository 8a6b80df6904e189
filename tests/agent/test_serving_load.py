from gpudiag.agent.serving_load import ServingLoad
from gpudiag.agent.window import Window
from gpudiag.probes import Sample, labels

CHAT = labels(server="chat")


def seen(*turns):
    """A load that saw, second by second, (waiting, tokens)."""
    window, clock = Window(()), [0.0]
    load = ServingLoad(lambda: clock[0])
    for at, (waiting, tokens) in enumerate(turns):
        window.now = clock[0] = 5.0 * at
        window.add([
            Sample("gpudiag_serving_requests_waiting", CHAT, window.now, waiting),
            Sample("gpudiag_serving_generation_tokens_total", CHAT, window.now, tokens),
        ])  # fmt: skip
        load.look(window)
    return load


def test_one_before_which_requests_wait_while_it_works_is_busy():
    assert seen((9, 10), (9, 20)).busy("chat", 5)
    assert not seen((2, 10), (2, 20)).busy("chat", 5)


def test_one_that_is_stuck_is_to_be_asked_now_of_all_times():
    assert not seen((9, 10), (9, 20), *[(9, 20)] * 14).busy("chat", 5)


def test_of_a_server_that_nobody_tells_of_nothing_is_held():
    assert not seen((9, 10), (9, 20)).busy("other", 5)
