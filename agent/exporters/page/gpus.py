"""The GPUs and the host as rows: what each reports now, and nothing where it reports nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from markupsafe import Markup

from gpudiag.agent.exporters import words
from gpudiag.agent.exporters.page import charts
from gpudiag.agent.exporters.view import Reading, Snapshot, View
from gpudiag.agent.findings.finding import Finding
from gpudiag.probes import Labels

SPARK_SECONDS = 900.0
_QUIET_REASONS = frozenset({"idle", "app_clocks"})
# A busy GPU runs at its power limit: worth showing, nothing wrong.
_NORMAL_REASONS = frozenset({"power_cap", "sync_boost"})
_HOT_MARGIN = 3.0
_RANK = {"critical": 0, "warning": 1}
NO_PICTURE = Markup("")


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a row: its column, the text, a small picture, and whether it is worrying."""

    column: str
    text: str
    picture: Markup = NO_PICTURE
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its number, model and UUID, a cell per column, and its worst finding, if any."""

    index: str
    name: str
    uuid: str
    cells: tuple[Cell, ...]
    trouble: Finding | None


class Readings:
    """Fresh readings of one GPU (or of the host), asked by metric name and label values."""

    def __init__(self, readings: list[Reading]) -> None:
        self._of: defaultdict[str, list[tuple[dict[str, str], float]]] = defaultdict(list)
        self._labels: dict[str, Labels] = {}
        for metric, pairs, _, value in readings:
            self._of[metric].append((dict(pairs), value))
            self._labels[metric] = pairs

    @property
    def silent(self) -> bool:
        """Whether nothing at all is reported."""
        return not self._of

    def all(self, metric: str) -> list[tuple[dict[str, str], float]]:
        """Every series of it as (labels, value)."""
        return self._of.get(metric, [])

    def value(self, metric: str, **match: str) -> float | None:
        """The value of the first series that matches; None where there is none."""
        found = (v for pairs, v in self.all(metric) if match.items() <= pairs.items())
        return next(found, None)

    def labels(self, metric: str) -> Labels:
        """The labels of its last series."""
        return self._labels.get(metric, ())


def by_uuid(snapshot: Snapshot) -> dict[str, Readings]:
    """The GPU readings by UUID, in the order of the GPUs' numbers."""
    groups: defaultdict[str, list[Reading]] = defaultdict(list)
    index: dict[str, str] = {}
    for reading in snapshot.samples:
        if reading[0].startswith("gpudiag_gpu_"):
            pairs = dict(reading[1])
            if "uuid" in pairs:
                groups[pairs["uuid"]].append(reading)
                index.setdefault(pairs["uuid"], pairs.get("gpu", ""))
    order = sorted(groups, key=lambda uuid: (len(index[uuid]), index[uuid], uuid))
    return {uuid: Readings(groups[uuid]) for uuid in order}


def numbers(snapshot: Snapshot) -> dict[str, str]:
    """The GPU's number by its UUID, where one is reported."""
    found = (dict(pairs) for metric, pairs, _, _ in snapshot.samples if "gpudiag_gpu_" in metric)
    return {pairs["uuid"]: pairs["gpu"] for pairs in found if {"uuid", "gpu"} <= pairs.keys()}


def rows(snapshot: Snapshot, view: View, known: Mapping[str, str]) -> list[Gpu]:
    """A row per GPU that reports now or is `known` (UUID to number) to have reported before.

    Those in trouble come first: on a telephone the eighth is far away.
    """
    reporting = by_uuid(snapshot)
    silent = {uuid: Readings([]) for uuid in known if uuid not in reporting}
    troubled = _troubled(snapshot)
    found = [
        Gpu(
            index=known.get(uuid, "?"),
            name=dict(readings.labels("gpudiag_gpu_info")).get("name", "").removeprefix("NVIDIA "),
            uuid=uuid,
            cells=tuple(_cells(readings, view)),
            trouble=troubled.get(uuid),
        )
        for uuid, readings in (reporting | silent).items()
    ]
    return sorted(found, key=_troubled_first)


def _troubled(snapshot: Snapshot) -> dict[str, Finding]:
    """The worst firing finding by UUID; one that explains others goes before them."""
    firing = [f for f in snapshot.findings if f.state == "firing" and f.severity in _RANK]
    firing.sort(key=lambda f: (_RANK[f.severity], bool(f.explained_by), f.since), reverse=True)
    return {uuid: f for f in firing if (uuid := dict(f.subject).get("uuid"))}


def _troubled_first(gpu: Gpu) -> tuple[int, bool]:
    rank = _RANK[gpu.trouble.severity] if gpu.trouble else len(_RANK)
    return rank, not any(cell.bad for cell in gpu.cells)


def _cells(gpu: Readings, view: View) -> Iterator[Cell]:
    yield _memory(gpu)
    yield _utilization(gpu, view)
    yield _temperature(gpu)
    yield _pair("Power", gpu, "gpudiag_gpu_power_watts", "gpudiag_gpu_power_limit_watts", "watts")
    yield _clock(gpu)
    yield _links(gpu)
    yield _trouble(gpu)


def _memory(gpu: Readings) -> Cell:
    used = gpu.value("gpudiag_gpu_memory_used_bytes")
    total = gpu.value("gpudiag_gpu_memory_total_bytes")
    if used is None or not total:
        return Cell("Memory", "" if used is None else words.quantity(used, "bytes"))
    text = words.share(used, total, "bytes")
    return Cell("Memory", text, charts.bar(used / total, f"{used / total:.0%} of memory used"))


def _utilization(gpu: Readings, view: View) -> Cell:
    metric = "gpudiag_gpu_utilization_ratio"
    value = gpu.value(metric)
    if value is None:
        return Cell("Busy", "")
    times, values = view.history(metric, SPARK_SECONDS, gpu.labels(metric))
    label = f"utilisation over the last {words.duration(SPARK_SECONDS)}"
    return Cell("Busy", f"{value:.0%}", charts.spark(times, values, top=1.0, label=label))


def _temperature(gpu: Readings) -> Cell:
    core = gpu.value("gpudiag_gpu_temperature_celsius", sensor="core")
    margin = gpu.value("gpudiag_gpu_temperature_margin_celsius")
    parts = [] if core is None else [words.quantity(core, "celsius")]
    if margin is not None:
        parts.append(f"({margin:.0f} to slowdown)")
    return Cell("Temperature", " ".join(parts), bad=margin is not None and margin < _HOT_MARGIN)


def _pair(column: str, gpu: Readings, metric: str, limit: str, unit: str) -> Cell:
    value, most = gpu.value(metric), gpu.value(limit)
    if value is None:
        return Cell(column, "")
    if most is None:
        return Cell(column, words.quantity(round(value), unit))
    return Cell(column, words.share(round(value), round(most), unit))


def _clock(gpu: Readings) -> Cell:
    clock = gpu.value("gpudiag_gpu_clock_hertz", clock="sm")
    most = gpu.value("gpudiag_gpu_clock_max_hertz", clock="sm")
    text = "" if clock is None else words.quantity(clock, "hertz")
    if clock is not None and most is not None:
        text = words.share(clock, most, "hertz")
    active = [p.get("reason", "") for p, v in gpu.all("gpudiag_gpu_throttle_active") if v]
    reasons = sorted(set(active) - _QUIET_REASONS)
    if reasons:
        text += "; limited by " + ", ".join(words.plain(reason) for reason in reasons)
    return Cell("Clock", text, bad=not _NORMAL_REASONS.issuperset(reasons))


def _links(gpu: Readings) -> Cell:
    prefix = "gpudiag_gpu_pcie_link_"
    generation, width = gpu.value(prefix + "generation"), gpu.value(prefix + "width")
    most = gpu.value(prefix + "width_max")
    lanes = "" if width is None else f" x{width:.0f}"
    if lanes and most not in (None, width):
        lanes += f" of x{most:.0f}"
    parts = [] if generation is None else [f"PCIe {generation:.0f}{lanes}"]
    links = [value for _, value in gpu.all("gpudiag_gpu_nvlink_up")]
    up = sum(1 for value in links if value)
    if links:
        parts.append(f"NVLink {up}/{len(links)}")
    narrow = width is not None and most is not None and width < most
    return Cell("Links", ", ".join(parts), bad=narrow or up < len(links))


def _trouble(gpu: Readings) -> Cell:
    xids = [
        f"XID {pairs.get('xid', '?')} ×{count:.0f}"
        for pairs, count in gpu.all("gpudiag_gpu_xid_errors_total")
        if count
    ]
    flags = {
        "gpudiag_gpu_lost": "lost",
        "gpudiag_gpu_row_remap_failed": "row remap failed",
        "gpudiag_gpu_row_remap_pending": "row remap pending",
        "gpudiag_gpu_recovery_action": "driver asks for recovery",
    }
    if gpu.silent:
        return Cell("Errors", "reports nothing any more", bad=True)
    said = xids + [text for metric, text in flags.items() if gpu.value(metric)]
    # Volatile counts are since the last reset: the aggregate may be years old.
    since_reset = {"kind": "uncorrected", "scope": "volatile"}
    for pairs, count in gpu.all("gpudiag_gpu_ecc_errors_total"):
        if count and since_reset.items() <= pairs.items():
            said.append(f"{count:.0f} uncorrectable ECC")
    return Cell("Errors", ", ".join(said) or "none seen", bad=bool(said))
