"""Text of rules as HTML."""

from __future__ import annotations

from markupsafe import Markup, escape


def coded(text: str) -> Markup:
    """Text as HTML in which `backticks` mark code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if row % 2 else part
        for row, part in enumerate(parts)
    )
