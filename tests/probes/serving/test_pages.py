from __future__ import annotations

import random

import pytest

from gpudiag.probes.serving.pages import MAX_SAMPLES, rows


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("up 1", ("up", (), 1.0)),
        ("up 1 1796110299000", ("up", (), 1.0)),
        ('a{b="c",} 2.5e3', ("a", (("b", "c"),), 2500.0)),
        ('a{ z = "1" , b="x" } 1', ("a", (("b", "x"), ("z", "1")), 1.0)),
        ('a{b="q\\"\\\\\\n"} 1', ("a", (("b", 'q"\\\n'),), 1.0)),
        ('a{b="}, # x"} 1', ("a", (("b", "}, # x"),), 1.0)),
        ('a_bucket{le="+Inf"} 3 # {trace_id="x"} 0.5', ("a_bucket", (("le", "+Inf"),), 3.0)),
    ],
)
def test_lines_of_real_pages(line, row):
    assert list(rows(line)) == [row]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# TYPE a gauge",
        "a",
        "a b",
        "a NaN",
        "a +Inf",
        "a 1e999",
        '{b="c"} 1',
        'a{b="c} 1',
        "a{b=c} 1",
        "<html>",
    ],
)
def test_what_is_no_sample_is_passed_over(line):
    assert list(rows(f"x 1\n{line}\ny 2")) == [("x", (), 1.0), ("y", (), 2.0)]


def test_a_huge_page_is_cut():
    assert sum(1 for _ in rows("a 1\n" * (MAX_SAMPLES + 10))) == MAX_SAMPLES


def fuzz(count, seed):
    rng = random.Random(seed)
    pieces = [
        'vllm:a{b="c"',
        "} ",
        "1",
        "\n",
        "# HELP",
        '"',
        "\\",
        ",",
        "le=",
        "NaN",
        "\0",
        "é",
        "{",
    ]
    for _ in range(count):
        text = "".join(rng.choice(pieces) for _ in range(rng.randrange(60)))
        for name, pairs, value in rows(text):
            assert name
            assert isinstance(value, float)
            assert list(pairs) == sorted(pairs)


def test_no_page_breaks_it():
    fuzz(300, seed=1)


@pytest.mark.long
def test_no_page_of_ten_thousand_breaks_it():
    fuzz(10_000, seed=2)
