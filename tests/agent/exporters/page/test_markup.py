"""Text of rules as HTML."""

from __future__ import annotations

from gpudiag.agent.exporters.page.markup import coded


def test_backticks_are_code_and_nothing_else_is_markup() -> None:
    assert coded("run `ls <x>` & go") == "run <code>ls &lt;x&gt;</code> &amp; go"
    assert coded("a lone ` stays") == "a lone ` stays"
