"""Limits are drawn only where the words plainly are limits."""

from __future__ import annotations

import pytest

from gpudiag.agent.exporters.page.expected import Limits, limits


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("< 0.35", (None, 0.35)),
        (">= 1.9 GHz", (1.9e9, None)),
        (">= 1.9 GHz (the peers' median)", (1.9e9, None)),
        ("at most 70 %", (None, 0.7)),
        ("20-30 %", (0.2, 0.3)),
        ("1.2 GHz to 1.4 GHz", (1.2e9, 1.4e9)),
        ("< 12 GiB", (None, 12 * 2.0**30)),
        ("> -5 °C", (-5.0, None)),
        ("≤ 1,000", (None, 1000.0)),
        ("< 5 ms", (None, 0.005)),
    ],
)
def test_limits(text: str, found: Limits) -> None:
    assert limits(text) == pytest.approx(found)


@pytest.mark.parametrize(
    "text",
    ["", "no such line", "at most the number of CPUs", "< 95% of 1.2e+11", "< 5 furlongs", "16"],
)
def test_anything_else_draws_nothing(text: str) -> None:
    assert limits(text) is None
