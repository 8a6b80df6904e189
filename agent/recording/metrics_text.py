"""A spool turned into `metrics.om`: families apart, each series whole and ascending in time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

import numpy as np
import numpy.typing as npt

from gpudiag.agent.recording import openmetrics
from gpudiag.agent.recording.spool import Rows
from gpudiag.agent.recording.timeline import SeriesKey
from gpudiag.probes import Labels

Place = tuple[str, Labels, str, float]
"""Where a series stands: its family, its group there, its metric and its bucket's bound."""


def write(keys: Sequence[SeriesKey], rows: Rows, text: TextIO) -> None:
    """Write all rows, times to the millisecond. Of two at one moment the last counts, since
    Prometheus refuses to take both.
    """
    rows = _last_of_each_moment(_sorted(keys, rows))
    changes = np.flatnonzero(rows["series"][1:] != rows["series"][:-1]) + 1
    family = ""
    for part in np.split(rows, changes) if len(rows) else []:
        key = keys[int(part["series"][0])]
        name, kind = openmetrics.family(key[0])
        if name != family:
            text.write(openmetrics.header(name, kind))
            family = name
        text.write(
            openmetrics.lines(
                openmetrics.series(*key), part["time"].tolist(), part["value"].tolist()
            )
        )
    text.write("# EOF\n")


def _sorted(keys: Sequence[SeriesKey], rows: Rows) -> Rows:
    places = [_place(key) for key in keys]
    group_of: npt.NDArray[np.int64] = np.empty(len(keys), dtype=np.int64)
    member_of: npt.NDArray[np.int64] = np.empty(len(keys), dtype=np.int64)
    groups: dict[tuple[str, Labels], int] = {}
    for rank, number in enumerate(sorted(range(len(keys)), key=lambda n: places[n])):
        group_of[number] = groups.setdefault(places[number][:2], len(groups))
        member_of[number] = rank
    rows = rows.copy()
    rows["time"] = np.round(rows["time"], 3)
    series = rows["series"]
    # The buckets of a histogram stand together at each time; of all else a group is one series.
    placed: Rows = rows[np.lexsort((member_of[series], rows["time"], group_of[series]))]
    return placed


def _last_of_each_moment(rows: Rows) -> Rows:
    if not len(rows):
        return rows
    series, time = rows["series"], rows["time"]
    last: Rows = rows[np.append((series[1:] != series[:-1]) | (time[1:] != time[:-1]), [True])]
    return last


def _place(key: SeriesKey) -> Place:
    metric, labels = key
    family, kind = openmetrics.family(metric)
    if kind != "histogram":
        return family, labels, metric, 0.0
    group = tuple(pair for pair in labels if pair[0] != "le")
    return family, group, metric, openmetrics.bucket_bound(labels)
