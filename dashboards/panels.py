"""Panels in one style: each says what it shows, in which unit, and why it turns red there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from gpudiag.agent.rules import RULES
from gpudiag.dashboards.quirks import (
    PromQueryFormat,
    bargauge,
    builders,
    common,
    legend,
    models,
    prometheus,
    stat,
    statetimeline,
    styles,
    table,
)
from gpudiag.dashboards.quirks import timeseries as series

DATASOURCE = styles.DataSourceRef(type_val="prometheus", uid="${datasource}")

_Panel = TypeVar(
    "_Panel", series.Panel, stat.Panel, statetimeline.Panel, table.Panel, bargauge.Panel
)


@dataclass(frozen=True, slots=True)
class Query:
    """An expression and how its series are called."""

    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Limits:
    """From which value on a panel has which colour, and why; no steps: why there are none."""

    reason: str
    steps: tuple[tuple[float, str], ...] = ()
    below: str = "green"


NO_LIMIT = Limits("none, since what is usual depends on the job; look for the one that differs")


def from_rule(symptom: str, threshold: str, *, low_is_bad: bool = False) -> Limits:
    """The limit that the rule of a symptom ships with, and the rule's own reason for it."""
    limit = RULES[symptom].thresholds[threshold]
    reason = f"{limit.default:g}, as rule {symptom} has it ({limit.why})"
    if low_is_bad:
        return Limits(reason, ((limit.default, "green"),), below="red")
    return Limits(reason, ((limit.default, "red"),))


@dataclass(frozen=True, slots=True)
class Text:
    """What stands over and behind a panel; `runbook` is the symptom whose page it links to."""

    title: str
    about: str
    unit: str
    limits: Limits
    runbook: str = ""


def graph(
    text: Text,
    *queries: Query,
    width: int = 8,
    stacked: bool = False,
    top: float | None = None,
    zero: bool = True,
    repeat: str = "",
) -> series.Panel:
    """Lines over time; `top` is the end of the scale, which starts at 0 unless `zero` is False.

    With `repeat` there is one panel for each chosen value of that variable.
    """
    mode = styles.StackingMode.NORMAL if stacked else styles.StackingMode.NONE
    panel = (
        series.Panel()
        .legend(legend())
        .tooltip(common.VizTooltipOptions().mode(styles.TooltipDisplayMode.MULTI))
        .fill_opacity(40 if stacked else 0)
        .stacking(common.StackingConfig().mode(mode))
        .show_points(styles.VisibilityMode.NEVER)
    )
    if text.limits.steps:
        lines = common.GraphThresholdsStyleConfig().mode(styles.GraphThresholdsStyleMode.DASHED)
        panel.thresholds_style(lines)
    if zero:
        panel.min(0)
    if top is not None:
        panel.max(top)
    if repeat:
        panel.repeat(repeat).repeat_direction("h")
    return _common(panel, text, queries, width, 7)


def number(text: Text, *queries: Query, width: int = 4, height: int = 4) -> stat.Panel:
    """The last values, large."""
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"])
    return _common(stat.Panel().reduce_options(reduce), text, queries, width, height)


def bars(text: Text, *queries: Query, width: int = 12, top: float | None = None) -> bargauge.Panel:
    """The last values as bars, one a series, as the expression sorts them."""
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"])
    panel = (
        bargauge.Panel()
        .reduce_options(reduce)
        .orientation(styles.VizOrientation.HORIZONTAL)
        .display_mode(styles.BarGaugeDisplayMode.BASIC)
        .min(0)
    )
    if top is not None:
        panel.max(top)
    return _common(panel, text, queries, width, 8)


def timeline(
    text: Text,
    *queries: Query,
    words: Mapping[int, tuple[str, str]],
    width: int = 12,
    height: int = 6,
    links: Mapping[str, str] | None = None,
) -> statetimeline.Panel:
    """States over time; `words` are text and colour of each value, `links` where a row leads."""
    results = {
        str(value): models.ValueMappingResult(text=word, color=colour, index=index)
        for index, (value, (word, colour)) in enumerate(words.items())
    }
    panel = (
        statetimeline.Panel()
        .legend(legend())
        .show_value(styles.VisibilityMode.AUTO)
        .row_height(0.8)
        .mappings([models.ValueMap(options=results)])
    )
    if links:
        panel.data_links([_link(title, url) for title, url in links.items()])
    return _common(panel, text, queries, width, height)


def listing(
    text: Text,
    *queries: Query,
    names: Mapping[str, str],
    width: int = 24,
    units: Mapping[str, str] | None = None,
    worst: str = "",
    links: Mapping[str, str] | None = None,
    height: int = 7,
) -> table.Panel:
    """The present values as a table of one line per label set; `names` are its columns in order.

    A column is a label, or `Value`; with several queries `Value #A` and so on, by their order.
    Lines stand in the order of the column `worst`, the largest first; `links` lead on from a line.
    """
    order = {name: index for index, name in enumerate(names)}
    panel = (
        table.Panel()
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            models.DataTransformerConfig(
                id_val="filterFieldsByName", options={"include": {"names": list(names)}}
            )
        )
        .with_transformation(
            models.DataTransformerConfig(
                id_val="organize", options={"indexByName": order, "renameByName": dict(names)}
            )
        )
    )
    for column, unit in (units or {}).items():
        panel.override_by_name(column, [models.DynamicConfigValue(id_val="unit", value=unit)])
    if worst:
        panel.sort_by([common.TableSortByFieldState().display_name(worst).desc(True)])
    if links:
        panel.data_links([_link(title, url) for title, url in links.items()])
    return _common(panel, text, queries, width, height)


def _common(
    panel: _Panel, text: Text, queries: tuple[Query, ...], width: int, height: int
) -> _Panel:
    steps = [models.Threshold(value=None, color=text.limits.below)]
    steps += [models.Threshold(value=value, color=colour) for value, colour in text.limits.steps]
    now = isinstance(panel, table.Panel | bargauge.Panel)
    panel.title(text.title).description(f"{text.about}\n\nLimits: {text.limits.reason}.")
    panel.unit(text.unit).datasource(DATASOURCE).span(width).height(height)
    panel.thresholds(builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    for query in queries:
        panel.with_target(_target(query, now=now, rows=isinstance(panel, table.Panel)))
    if text.runbook:
        panel.links([_link(f"Runbook: {text.runbook}", f"${{runbooks}}/{text.runbook}")])
    return panel


def _target(query: Query, *, now: bool, rows: bool) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend)
    target.datasource(DATASOURCE)
    if rows:
        target.format(PromQueryFormat.TABLE)
    return target.instant() if now else target.range()


def _link(title: str, url: str) -> builders.DashboardLink:
    link = builders.DashboardLink(title).type(models.DashboardLinkType.LINK)
    return link.url(url).target_blank(True)
