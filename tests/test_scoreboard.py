"""The scoreboard counts what was said, and the README shows it."""

import sys
from pathlib import Path

from tests.scoreboard import Answer, Score, everything, table

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- scoreboard: begin -->\n", "<!-- scoreboard: end -->"


def scored(*answers, unexpected=(), healthy=False):
    return Score(answers=answers, unexpected=unexpected, days=0.5, healthy=healthy)


def test_a_wrong_cause_and_a_miss_are_counted_apart():
    right = Answer("gpu-lost/gpu-lost", "gpu-lost/gpu-lost", 4.0)
    wrong = Answer("gpu-lost/gpu-lost", "gpu-lost/undetermined", 6.0)
    missed = Answer("gpu-lost/gpu-lost", "nothing", None)
    said = table([scored(right, wrong, missed), scored(healthy=True)])
    assert "| gpu-lost | 3 | 1 | 1 | 1 | 5 s |" in said
    assert "gpu-lost/gpu-lost read as gpu-lost/undetermined (1)" in said


def test_false_alarms_are_told_by_healthy_day():
    said = table([scored(unexpected=("gpu-lost/gpu-lost",), healthy=True)])
    assert "False alarms: 1 in 0.5 healthy days (2.00 a day)." in said


def test_the_readme_shows_it():
    shown = README.read_text().partition(BEGIN)[2].partition(END)[0]
    assert shown == everything(), "PYTHONPATH=. python tests/test_scoreboard.py"


if __name__ == "__main__":
    head, begin, rest = README.read_text().partition(BEGIN)
    README.write_text(head + begin + everything() + END + rest.partition(END)[2])
    sys.stdout.write("README.md renewed\n")
