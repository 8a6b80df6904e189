"""A runbook's markdown as HTML, each heading reachable by `#its-name`."""

from __future__ import annotations

import re
from itertools import pairwise

from markupsafe import Markup

from gpudiag.agent import pages
from gpudiag.probes.catalog import Symptom, symptoms


def listed() -> list[Symptom]:
    """The symptoms that have a page, by name."""
    return [symptoms()[name] for name in pages.names()]


def html(symptom: str) -> Markup | None:
    """The page of that symptom; None where there is none. HTML in the source is shown as text."""
    return rendered(pages.page(symptom)) if symptom in pages.names() else None


def rendered(text: str) -> Markup:
    """Markdown as HTML with an id on every heading."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(text)
    for opening, content in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", slug(content.content))
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S704


def slug(heading: str) -> str:
    """`Thermal throttle (hw)` as `thermal-throttle-hw`."""
    return "-".join(re.findall(r"[a-z0-9]+", heading.lower()))
