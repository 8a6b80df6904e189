"""Panels in one style: each says what it shows, in which unit, and why it turns red there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from gpudiag.agent.rules import RULES
from gpudiag.dashboards.quirks import (
    PromQueryFormat,
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

_Panel = TypeVar("_Panel", series.Panel, stat.Panel, statetimeline.Panel, table.Panel)


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
) -> series.Panel:
    """Lines over time; `top` is the end of the scale, which starts at 0 unless `zero` is False."""
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
    return _common(panel, text, queries, width, 7)


def number(text: Text, *queries: Query, width: int = 4) -> stat.Panel:
    """The last values, large."""
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"])
    return _common(stat.Panel().reduce_options(reduce), text, queries, width, 4)


def timeline(
    text: Text,
    *queries: Query,
    words: Mapping[int, tuple[str, str]],
    width: int = 12,
    height: int = 6,
    link: str = "",
) -> statetimeline.Panel:
    """States over time; `words` has the text and colour of each value, `link` where a row leads."""
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
    if link:
        panel.data_links([_link("Runbook", link)])
    return _common(panel, text, queries, width, height)


def listing(
    text: Text,
    *queries: Query,
    names: Mapping[str, str],
    width: int = 24,
    units: Mapping[str, str] | None = None,
) -> table.Panel:
    """The present values as a table of one line per label set; `names` are its columns in order.

    A column is a label, or `Value`; with several queries `Value #A` and so on, by their order.
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
    return _common(panel, text, queries, width, 7)


def _common(
    panel: _Panel, text: Text, queries: tuple[Query, ...], width: int, height: int
) -> _Panel:
    steps = [models.Threshold(value=None, color=text.limits.below)]
    steps += [models.Threshold(value=value, color=colour) for value, colour in text.limits.steps]
    now = isinstance(panel, table.Panel)
    panel.title(text.title).description(f"{text.about}\n\nLimits: {text.limits.reason}.")
    panel.unit(text.unit).datasource(DATASOURCE).span(width).height(height)
    panel.thresholds(builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    for query in queries:
        panel.with_target(_target(query, now=now))
    if text.runbook:
        panel.links([_link(f"Runbook: {text.runbook}", f"${{runbooks}}/{text.runbook}")])
    return panel


def _target(query: Query, *, now: bool) -> prometheus.Dataquery:
    target = prometheus.Dataquery().expr(query.expr).legend_format(query.legend)
    target.datasource(DATASOURCE)
    return target.instant().format(PromQueryFormat.TABLE) if now else target.range()


def _link(title: str, url: str) -> builders.DashboardLink:
    link = builders.DashboardLink(title).type(models.DashboardLinkType.LINK)
    return link.url(url).target_blank(True)
