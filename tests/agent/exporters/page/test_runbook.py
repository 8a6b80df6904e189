"""Runbooks as pages."""

from __future__ import annotations

import pytest

from gpudiag.agent.exporters.page.runbook import html, rendered, slug


def test_headings_can_be_linked_to() -> None:
    page = rendered("# Too hot\n\n### `thermal-throttle`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    assert '<h3 id="thermal-throttle"><code>thermal-throttle</code></h3>' in page
    assert "<td>1</td>" in page


def test_html_in_a_page_is_text() -> None:
    assert "<script>" not in rendered("<script>alert(1)</script>")


@pytest.mark.parametrize("name", ["../pyproject", "no-such-symptom", "", "__init__", "A"])
def test_no_such_page(name: str) -> None:
    assert html(name) is None


def test_slug() -> None:
    assert slug("Thermal throttle (hw)") == "thermal-throttle-hw"
