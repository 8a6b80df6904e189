"""What a client prefers, by its q-values."""

from __future__ import annotations

import pytest

from gpudiag.agent.exporters.negotiate import accepts, quality
from gpudiag.agent.exporters.prometheus import chosen_format

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;q=0.6,application/openmetrics-text;version=0.0.1;"
    "q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (PROMETHEUS, "openmetrics"),
        ("application/openmetrics-text", "openmetrics"),
        ("text/plain, application/openmetrics-text;q=0.1", "text"),
        ("application/openmetrics-text;q=0", "text"),
        ("application/openmetrics-text;q=many", "text"),
        ("text/html,*/*", "text"),
        ("", "text"),
    ],
)
def test_format(accept: str, wanted: str) -> None:
    assert chosen_format(accept) == wanted


def test_the_best_of_several_mentions_counts() -> None:
    assert quality("a/b;q=0.2, a/b;v=1;q=0.7", "a/b") == 0.7


def test_gzip_refused_by_q_zero() -> None:
    assert accepts("deflate, gzip", "gzip")
    assert not accepts("gzip;q=0, br", "gzip")
