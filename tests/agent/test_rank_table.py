from rich.console import Console

from gpudiag.agent.rank_table import rows, table


def one(metric, value, **labels):
    return {"metric": metric, "labels": labels, "value": value}


SERIES = [
    one("gpudiag_train_info", 1, job="llama", rank="10", pid="7", uuid="GPU-a"),
    one("gpudiag_train_info", 1, job="llama", rank="9", pid="6"),
    one("gpudiag_train_step_seconds", 0.25, job="llama", rank="10"),
    one("gpudiag_train_steps_total", 41, job="llama", rank="9"),
    one("gpudiag_gpu_utilization_ratio", 0.97, uuid="GPU-a", gpu="3"),
    one("gpudiag_gpu_utilization_ratio", 0.0, uuid="GPU-b", gpu="4"),
    one("gpudiag_gpu_temperature_celsius", 71, uuid="GPU-a", gpu="3", sensor="core"),
    one("gpudiag_gpu_temperature_celsius", 99, uuid="GPU-a", gpu="3", sensor="memory"),
]


def shown(width=250):
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table(rows(SERIES), width))
    return captured.get().splitlines()


def test_ranks_by_number_then_the_gpus_without_one():
    assert [(row.rank, row.gpu) for row in rows(SERIES)] == [("9", ""), ("10", "3"), ("", "4")]


def test_a_rank_shows_its_gpus_figures():
    row = rows(SERIES)[1]
    assert (row.figures["busy"], row.figures["heat"], row.info["pid"]) == (0.97, 71, "7")


def test_what_is_not_known_is_no_zero():
    line = shown()[1].split()
    assert line[:5] == ["llama", "9", "6", "41", "·"]


def test_the_job_is_named_once_and_units_are_written():
    assert "llama" not in shown()[2]
    assert "250.0 ms" in shown()[2]
    assert "97%" in shown()[2]
    assert "71 °C" in shown()[2]


def test_columns_that_nobody_fills_are_left_out():
    assert "power" not in shown()[0]


def test_a_narrow_terminal_loses_what_tells_least():
    head, *lines = shown(45)
    assert ("pid" in head, "step" in head, "busy" in head) == (False, True, True)
    assert all(len(line.rstrip()) <= 45 for line in [head, *lines])
    assert "…" not in "".join(lines)
