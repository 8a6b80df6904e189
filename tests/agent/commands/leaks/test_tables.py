from __future__ import annotations

from gpudiag.agent.analysis.memory import figures
from gpudiag.agent.commands.leaks.reading import rank_of
from gpudiag.agent.commands.leaks.tables import spark


def test_a_spark_rises_with_its_levels():
    assert spark([0, 1, 2, 3]) == "▁▃▆█"
    assert spark([5, 5]) == "▁▁"


def test_a_long_series_is_thinned_its_ends_kept():
    drawn = spark(list(range(100)), width=10)
    assert (len(drawn), drawn[0], drawn[-1]) == (10, "▁", "█")


def test_ranks_are_read_from_paths():
    assert rank_of("out/rank12/iteration_5/rank3_memory_snapshot.pickle") == 3
    assert rank_of("a.pickle") is None


def test_sizes_read_as_people_write_them():
    assert [figures.size(n) for n in (512, 2048, 2**20 * 18.3, 2**30 * 512)] == [
        "512 B", "2.00 KiB", "18.3 MiB", "512 GiB",
    ]  # fmt: skip
    assert figures.signed(-2048) == "-2.00 KiB"
