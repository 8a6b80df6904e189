from pathlib import Path

import pytest

from gpudiag.probes.logs.elastic import Block, error_file
from gpudiag.probes.logs.lines import LogFact

HERE = Path(__file__).parent / "torchrun"
CONSOLE = (HERE / "console.txt").read_text().splitlines()


def facts(lines: list[str]) -> list[LogFact]:
    block = Block()
    found = [fact for line in lines for fact in block.take(line)[1]]
    return found + block.finish()


def test_the_root_cause_is_told_first_with_its_rank_and_error() -> None:
    root, error, sibling = facts(CONSOLE)
    assert (root.rank, root.number("code"), root.fields["first"]) == ("1", 1, "1")
    assert root.fields["error"] == error.text == "ValueError: labels are missing: 'labels'"
    assert (sibling.rank, sibling.number("code"), "first" in sibling.fields) == ("0", -15, False)


def test_a_tee_s_prefix_changes_nothing() -> None:
    assert facts([f"[default0]:{line}" for line in CONSOLE])[0].rank == "1"


def test_lines_before_and_after_are_not_the_block_s() -> None:
    block = Block()
    taken = [line for line in CONSOLE if block.take(line)[0]]
    assert taken[0] == "Failures:"
    assert set(taken[-1]) == {"="}
    assert not block.take("step 1")[0]


def test_another_program_s_heading_opens_nothing() -> None:
    block = Block()
    assert block.take("Failures:")[0]
    assert not block.take("KeyError: 'x'")[0]
    assert not block.is_open


def test_a_block_that_never_ends_is_bounded() -> None:
    block = Block()
    for line in CONSOLE[: CONSOLE.index("[1]:") + 1]:
        block.take(line)
    for _ in range(5000):
        block.take("  noise")
    assert not block.is_open


def test_the_error_file_of_a_rank() -> None:
    found = error_file((HERE / "error.json").read_text())
    assert found is not None
    assert found.message == "ValueError: labels are missing: 'labels'"
    assert found.time == 1796108585.0


def test_the_old_form_of_the_error_file() -> None:
    assert error_file('{"message": "it failed"}') == ("it failed", None)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"message": 3}', "[" * 100_000])
def test_what_is_no_error_file(text: str) -> None:
    assert error_file(text) is None
