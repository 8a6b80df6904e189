"""The ranks of training jobs beside their GPUs, as one table for the terminal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table
from rich.text import Text

NONE = "·"
GIB = 2.0**30

_RANK = {
    "steps": "gpudiag_train_steps_total",
    "step": "gpudiag_train_step_seconds",
    "data": "gpudiag_train_data_wait_seconds",
    "compute": "gpudiag_train_compute_seconds",
    "comm": "gpudiag_train_comm_wait_seconds",
    "lag": "gpudiag_train_arrival_lag_seconds",
    "queue": "gpudiag_train_loader_queue_depth",
    "loss": "gpudiag_train_loss",
    "allocated": "gpudiag_torch_allocated_bytes",
}
_GPU = {
    "busy": ("gpudiag_gpu_utilization_ratio", {}),
    "used": ("gpudiag_gpu_memory_used_bytes", {}),
    "total": ("gpudiag_gpu_memory_total_bytes", {}),
    "heat": ("gpudiag_gpu_temperature_celsius", {"sensor": "core"}),
    "clock": ("gpudiag_gpu_clock_hertz", {"clock": "sm"}),
    "power": ("gpudiag_gpu_power_watts", {}),
}
_HEADS = (
    "job", "rank", "pid", "steps", "step", "data", "compute", "comm", "late", "queue", "loss",
    "torch", "GPU", "busy", "memory", "temp", "SM clock", "power",
)  # fmt: skip
_LEAST_FIRST = (
    "power",
    "pid",
    "torch",
    "queue",
    "steps",
    "loss",
    "temp",
    "SM clock",
    "job",
    "data",
)

LONGEST_JOB = 20


@dataclass(slots=True)
class Row:
    """One rank with its GPU, or a GPU without a rank; figures by their short name."""

    job: str = ""
    rank: str = ""
    info: Mapping[str, str] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    gpu: str = ""


def rows(series: Iterable[Mapping[str, Any]]) -> list[Row]:
    """One row per rank, by job and rank, then the GPUs that no rank is known to be on."""
    by_metric: defaultdict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
    for one in series:
        by_metric[one["metric"]].append((one["labels"], one["value"]))
    ranks = _ranks(by_metric)
    gpus = _gpus(by_metric)
    taken = set()
    for row in ranks:
        uuid = row.info.get("uuid", "")
        if uuid in gpus:
            taken.add(uuid)
            row.gpu = gpus[uuid].gpu
            row.figures.update(gpus[uuid].figures)
    free = [gpus[uuid] for uuid in gpus.keys() - taken]
    return sorted(ranks, key=_order) + sorted(free, key=lambda row: _number(row.gpu))


def table(found: Iterable[Row], width: int) -> Table:
    """The rows for a person: seconds in ms, bytes in GiB; what is not known is a dot.

    Columns that no row fills are left out, and where all do not fit into `width` characters, those
    that tell least.
    """
    listed = list(found)
    lines = [_cells(row, shown=row.job != above) for above, row in _with_above(listed)]
    shown = Table(box=None, pad_edge=False, header_style="bold")
    heads = _fitting(lines, width)
    for head in heads:
        shown.add_column(head, justify="left" if head == "job" else "right", no_wrap=True)
    for line in lines:
        shown.add_row(*(Text(line[h], style="dim" if line[h] == NONE else "") for h in heads))
    return shown


def _with_above(listed: list[Row]) -> Iterator[tuple[str | None, Row]]:
    yield from zip([None, *(row.job for row in listed)], listed, strict=False)


def _fitting(lines: list[dict[str, str]], width: int) -> list[str]:
    """The columns to show, in their order."""
    filled = [head for head in _HEADS if any(line[head] not in ("", NONE) for line in lines)]
    size = {h: 2 + max(len(h), *(len(line[h]) for line in lines)) for h in filled}
    for head in _LEAST_FIRST:
        if sum(size[h] for h in filled) - 2 <= width:
            break
        if head in filled:
            filled.remove(head)
    return filled


def _ranks(by_metric: Mapping[str, list[tuple[dict[str, str], float]]]) -> list[Row]:
    found: dict[tuple[str, str], Row] = {}
    for short, metric in {**_RANK, "": "gpudiag_train_info"}.items():
        for of, value in by_metric.get(metric, ()):
            who = of.get("job", ""), of.get("rank", "")
            row = found.setdefault(who, Row(*who))
            if short:
                row.figures[short] = value
            else:
                row.info = of
    return list(found.values())


def _gpus(by_metric: Mapping[str, list[tuple[dict[str, str], float]]]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for short, (metric, wanted) in _GPU.items():
        for of, value in by_metric.get(metric, ()):
            if wanted.items() <= of.items() and "uuid" in of:
                row = found.setdefault(of["uuid"], Row(gpu=of.get("gpu") or of["uuid"][:12]))
                row.figures[short] = value
    return found


def _order(row: Row) -> tuple[str, float]:
    return row.job, _number(row.rank)


def _number(text: str) -> float:
    return float(text) if text.isdigit() else float("inf")


def _cells(row: Row, *, shown: bool) -> dict[str, str]:
    def figure(short: str, form: str, scale: float = 1.0) -> str:
        value = row.figures.get(short)
        return NONE if value is None else form.format(value * scale)

    memory = figure("used", "{:.1f}", 1 / GIB)
    if "total" in row.figures and memory != NONE:
        memory += figure("total", "/{:.0f} GiB", 1 / GIB)
    return {
        "job": row.job[:LONGEST_JOB] if shown else "",
        "rank": row.rank or NONE,
        "pid": row.info.get("pid", NONE),
        "steps": figure("steps", "{:.0f}"),
        "step": figure("step", "{:.1f} ms", 1e3),
        "data": figure("data", "{:.1f} ms", 1e3),
        "compute": figure("compute", "{:.1f} ms", 1e3),
        "comm": figure("comm", "{:.1f} ms", 1e3),
        "late": figure("lag", "{:.1f} ms", 1e3),
        "queue": figure("queue", "{:.0f}"),
        "loss": figure("loss", "{:.4g}"),
        "torch": figure("allocated", "{:.2f} GiB", 1 / GIB),
        "GPU": row.gpu or NONE,
        "busy": figure("busy", "{:.0%}"),
        "memory": memory,
        "temp": figure("heat", "{:.0f} °C"),
        "SM clock": figure("clock", "{:.2f} GHz", 1e-9),
        "power": figure("power", "{:.0f} W"),
    }
