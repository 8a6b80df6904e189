"""What grafana-foundation-sdk 0.0.21 leaves out or gets wrong, put right in one place.

Panels come without ids, targets without `refId`, time series with a hidden legend; a row that is
given its panels is collapsed whatever it was told; links and annotations land in a menu;
importing it warns. All of the SDK that the dashboards use is imported here.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from string import ascii_uppercase
from typing import Any

with warnings.catch_warnings():
    # On import it recommends schema v2, which Grafana before 12 does not read.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import (
        bargauge,
        common,
        prometheus,
        stat,
        statetimeline,
        table,
        timeseries,
    )
    from grafana_foundation_sdk.builders import dashboard as builders
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common as styles
    from grafana_foundation_sdk.models import dashboard as models
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat

__all__ = [
    "Json",
    "Panels",
    "PromQueryFormat",
    "add_row",
    "bargauge",
    "builders",
    "common",
    "every_panel",
    "finished",
    "legend",
    "models",
    "prometheus",
    "stat",
    "statetimeline",
    "styles",
    "table",
    "timeseries",
]

Json = dict[str, Any]
Panels = Sequence[Builder[models.Panel]]

_COLUMNS = 24
_IN_MENU = "inControlsMenu"
_STRAY = ("auto", "auto_count", "auto_min")


def legend() -> common.VizLegendOptions:
    """A legend that is shown; the SDK's own is not."""
    return (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(styles.LegendDisplayMode.LIST)
        .placement(styles.LegendPlacement.BOTTOM)
    )


def add_row(board: builders.Dashboard, title: str, panels: Panels, *, collapsed: bool) -> None:
    """Add a row. Grafana drops the panels inside an open row, so those follow it."""
    row = builders.Row(title)
    if collapsed:
        for panel in panels:
            row.with_panel(panel)
        board.with_row(row)
        return
    board.with_row(row)
    for panel in panels:
        board.with_panel(panel)


def finished(board: models.Dashboard) -> Json:
    """The dashboard as JSON with ids, `refId`s and places, and without what is not ours."""
    plain: Json = json.loads(JSONEncoder().encode(board), object_hook=_without_menu)
    panels = plain["panels"]
    for number, panel in enumerate(every_panel(panels), start=1):
        panel["id"] = number
        for letter, target in zip(ascii_uppercase, panel.get("targets", ()), strict=False):
            target["refId"] = letter
    _place(panels, 0)
    for variable in plain.get("templating", {}).get("list", ()):
        for name in _STRAY:
            variable.pop(name, None)
    return plain


def _without_menu(thing: Json) -> Json:
    """Read by the JSON parser for each object: links and annotations stand where people look."""
    if thing.get("placement") == _IN_MENU:
        del thing["placement"]
    return thing


def every_panel(panels: Iterable[Json]) -> Iterator[Json]:
    """All panels in reading order, rows among them, and those inside collapsed rows."""
    for panel in panels:
        yield panel
        yield from panel.get("panels") or ()


def _place(panels: Iterable[Json], top: int) -> None:
    """Left to right as wide and high as each is, starting at line `top` of the grid."""
    left = below = 0
    for panel in panels:
        row = panel["type"] == "row"
        width = _COLUMNS if row else panel["gridPos"]["w"]
        height = 1 if row else panel["gridPos"]["h"]
        if left + width > _COLUMNS:
            left, top, below = 0, top + below, 0
        panel["gridPos"] = {"x": left, "y": top, "w": width, "h": height}
        _place(panel.get("panels") or (), top + 1)
        left, below = left + width, max(below, height)
