from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from gpudiag.agent.recording import notation
from gpudiag.probes.errors import UsageError
from tests.tools import needs

FORMS = [
    ("1 2 3", [1.0, 2.0, 3.0]),
    ("0+10x3", [0.0, 10.0, 20.0, 30.0]),
    ("5-2x2", [5.0, 3.0, 1.0]),
    ("-1-1x1", [-1.0, -2.0]),
    ("7x2", [7.0, 7.0, 7.0]),
    ("4x0", [4.0]),
    ("_", [None]),
    ("1 _x3 2", [1.0, None, None, None, 2.0]),
    ("1 _x0 2", [1.0, 2.0]),
    ("1e9 .5 5. +3 1E3", [1e9, 0.5, 5.0, 3.0, 1000.0]),
    ("Inf -inf +Inf", [math.inf, -math.inf, math.inf]),
    ("0+0.1x3", [0.0, 0.1, 0.2, 0.1 + 0.1 + 0.1]),
    ("  1\n\t2 ", [1.0, 2.0]),
    ("", []),
]
REFUSED = [
    "1-2",
    "stalex3",
    "infinity",
    "1_000",
    "1+-2x3",
    "1x",
    "1 x3",
    "1x1e1",
    "1e",
    "a",
    "_x-1",
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_values_of_each_form(text: str, expected: list[float | None]) -> None:
    assert notation.values(text) == expected


@pytest.mark.parametrize("text", ["NaN", "nan", "stale"])
def test_nan_and_stale_are_nan(text: str) -> None:
    assert [math.isnan(v or 0.0) for v in notation.values(f"{text} 1")] == [True, False]


@pytest.mark.parametrize("text", REFUSED)
def test_garbage_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no value"):
        notation.values(text)


@pytest.mark.parametrize("text", ["1 0x99999999999999", "_x" + "9" * 30, "1x" + "9" * 5000])
def test_a_huge_repeat_is_refused_before_it_is_made(text: str) -> None:
    with pytest.raises(UsageError, match="makes more than 5000000"):
        notation.values(text)


SERIES = [
    ("m", ("m", ())),
    ("m{}", ("m", ())),
    (' m{b="2",a="1",} ', ("m", (("a", "1"), ("b", "2")))),
    ("m{a='x'}", ("m", (("a", "x"),))),
    (r'm{a="x\n\"\\\x41\u00e9"}', ("m", (("a", 'x\n"\\A\u00e9'),))),
    (r"m{a=`x\n`}", ("m", (("a", "x\\n"),))),
    ('{__name__="m",a="}"}', ("m", (("a", "}"),))),
    ('m_bucket{le="+Inf"}', ("m_bucket", (("le", "+Inf"),))),
]


@pytest.mark.parametrize(("text", "expected"), SERIES)
def test_series_of_each_form(text: str, expected: object) -> None:
    assert notation.series(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{a="1"}', "m{", 'm{a="1" b="2"}', 'm{a="1",a="2"}', "m{a=1}", r'm{a="\q"}', "1m"],
)
def test_no_series_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        notation.series(text)


def _promtool_says(tmp_path: Path, series: str, values: str, expected: list[float | None]) -> str:
    """promtool's verdict: at each index exactly the value expected, and nothing after the last."""
    checks = "".join(
        f"      - expr: '{{__name__=~\".+\"}} == {value!r}'\n        eval_time: {10 * index}m\n"
        f"        exp_samples: [{{labels: {series!r}, value: {value!r}}}]\n"
        if value is not None
        else f"      - expr: '{{__name__=~\".+\"}}'\n        eval_time: {10 * index}m\n"
        for index, value in enumerate([*expected, None])
    )
    test = tmp_path / "test.yml"
    test.write_text(
        "tests:\n  - interval: 10m\n    input_series:\n"
        f"      - {{series: {series!r}, values: {values!r}}}\n"
        f"    promql_expr_test:\n{checks}"
    )
    done = subprocess.run(
        ["promtool", "test", "rules", str(test)], check=False, capture_output=True, text=True
    )
    return done.stdout + done.stderr if done.returncode else ""


@needs("promtool", "prometheus")
@pytest.mark.parametrize(("text", "expected"), [f for f in FORMS if "inf" not in f[0].lower()])
def test_promtool_reads_the_same(tmp_path: Path, text: str, expected: list[float | None]) -> None:
    assert _promtool_says(tmp_path, "m", " ".join(text.split()), expected) == ""


@needs("promtool", "prometheus")
# promtool takes the minus of `_x-1` for a huge number and fills the memory with it.
@pytest.mark.parametrize("text", [t for t in REFUSED if t not in ("1_000", "_x-1")])
def test_promtool_refuses_the_same(tmp_path: Path, text: str) -> None:
    assert "parse error" in _promtool_says(tmp_path, "m", text, [])
