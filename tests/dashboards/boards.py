"""The committed dashboards, and what their panels ask."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpudiag.dashboards.quirks import every_panel

Json = dict[str, Any]

GENERATED = Path(__file__).parents[2] / "dashboards" / "generated"
FILES = sorted(GENERATED.glob("*.json"))
BOARDS: list[Json] = [json.loads(path.read_text()) for path in FILES]
NAMES = [path.stem for path in FILES]


def panels(board: Json) -> list[Json]:
    """Those that show something: rows are left out."""
    return [panel for panel in every_panel(board["panels"]) if panel["type"] != "row"]


def questions(board: Json) -> Iterator[tuple[str, str, bool]]:
    """Where it stands, the expression, and whether it is asked for one moment alone."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target["expr"], target["instant"]
    for mark in board["annotations"]["list"]:
        yield mark["name"], mark["target"]["expr"], False


def substituted(expr: str, interval: str = "4m", span: str = "70m", **chosen: str) -> str:
    """An expression as Grafana sends it; a variable that is not chosen stands at All."""
    plain = expr.replace("$__rate_interval", interval).replace("$__range", span)
    return re.sub(r"\$(\w+)", lambda found: chosen.get(found[1], ".*"), plain)


def metric_names(text: str) -> set[str]:
    """The metrics an expression reads, a histogram's by its own name."""
    return {
        re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"gpudiag_[a-z0-9_]+", text)
    }
