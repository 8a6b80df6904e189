"""Histories of GPU nodes as exporters write them, with faults planted at known times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from gpudiag.agent.recording import openmetrics
from gpudiag.probes import Labels, labels

Key = tuple[str, Labels]

NEW_NAMES = {
    "DCGM_FI_DEV_GPU_TEMP": "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
    "DCGM_FI_DEV_POWER_USAGE": "DCGM_FI_DEV_BOARD_POWER_WATTS",
    "DCGM_FI_DEV_GPU_UTIL": "DCGM_FI_DEV_GPU_UTIL_RATIO",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "DCGM_FI_DEV_PCIE_REPLAY_TOTAL",
    "DCGM_FI_DEV_XID_ERRORS": "DCGM_FI_DEV_XID_ERROR",
}
HW_THERMAL = 0x40
HOUR = 3600.0


@dataclass(frozen=True)
class Gpu:
    """Its faults by the hour (0-24) at which they begin; None where it has none."""

    index: int
    hot: float | None = None
    xid: float | None = None
    ecc: float | None = None
    grows: float | None = None
    replays: float | None = None

    @property
    def uuid(self) -> str:
        return f"GPU-{self.index:08d}-aaaa-bbbb-cccc-dddddddddddd"


def dcgm_day(
    gpus: Iterable[Gpu],
    *,
    start: float,
    hours: float = 24.0,
    every: float = 30.0,
    node: str = "n1",
    new_names: bool = False,
    without: Iterable[str] = (),
    target: Mapping[str, str] = {"job": "dcgm", "instance": "10.0.0.1:9400"},
) -> Iterator[tuple[Key, float, float]]:
    """(series, time, value) of a node with dcgm-exporter alone, in the order of time."""
    left_out = set(without)
    random = Random(7)
    several = list(gpus)
    for step in range(int(hours * HOUR / every)):
        at = step * every
        for one in several:
            for name, value in _fields(one, at, random).items():
                if name in left_out:
                    continue
                spelled, figure = name, value
                if new_names and name in NEW_NAMES:
                    spelled = NEW_NAMES[name]
                    figure = value / 100.0 if name == "DCGM_FI_DEV_GPU_UTIL" else value
                yield (spelled, _labels(one, node, target, name, value)), start + at, figure


def _labels(one: Gpu, node: str, target: Mapping[str, str], name: str, value: float) -> Labels:
    naming = {"UUID": one.uuid, "gpu": str(one.index), "Hostname": node, "device": "nvidia0"}
    if name == "DCGM_FI_DEV_XID_ERRORS":
        naming |= {"err_code": f"{value:.0f}", "err_msg": "some words"}
    return labels(**naming, **target)


def _fields(one: Gpu, at: float, random: Random) -> dict[str, float]:
    hot = _during(one.hot, at, 1.0)
    wobble = random.uniform(-1.0, 1.0)
    used = 40_000.0 + 30.0 * wobble
    if one.grows is not None and at >= one.grows * HOUR:
        used += (at - one.grows * HOUR) / HOUR * 2000.0
    return {
        "DCGM_FI_DEV_GPU_TEMP": 92.0 if hot else 61.0 + wobble,
        "DCGM_FI_DEV_POWER_USAGE": 420.0 if hot else 640.0 + 10 * wobble,
        "DCGM_FI_DEV_GPU_UTIL": 97.0 + wobble,
        "DCGM_FI_DEV_SM_CLOCK": 1200.0 if hot else 1980.0,
        "DCGM_FI_DEV_FB_USED": used,
        "DCGM_FI_DEV_FB_TOTAL": 81_559.0,
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": float(HW_THERMAL) if hot else 0.0,
        "DCGM_FI_DEV_XID_ERRORS": 94.0 if _since(one.xid, at) else 0.0,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 1.0 if _since(one.ecc, at) else 0.0,
        "DCGM_FI_DEV_ROW_REMAP_PENDING": 0.0,
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": _replays(one.replays, at),
    }


def _since(hour: float | None, at: float) -> bool:
    return hour is not None and at >= hour * HOUR


def _during(hour: float | None, at: float, hours: float) -> bool:
    return hour is not None and hour * HOUR <= at < (hour + hours) * HOUR


def _replays(hour: float | None, at: float) -> float:
    if hour is None or at < hour * HOUR:
        return 0.0
    return min(at - hour * HOUR, HOUR) * 5.0


def write(path: Path, samples: Iterable[tuple[Key, float, float]]) -> Path:
    """OpenMetrics for backfilling, by series, as promtool wants it."""
    by_series: dict[Key, list[tuple[float, float]]] = {}
    for key, at, value in samples:
        by_series.setdefault(key, []).append((at, value))
    by_name: dict[str, list[Key]] = {}
    for key in by_series:
        by_name.setdefault(key[0], []).append(key)
    with path.open("w") as file:
        for name, keys in by_name.items():
            file.write(f"# TYPE {openmetrics.family(name)[0]} {openmetrics.family(name)[1]}\n")
            for key in keys:
                head = openmetrics.series(*key)
                file.writelines(f"{head} {v!r} {t:.3f}\n" for t, v in by_series[key])
        file.write("# EOF\n")
    return path


Maker = Callable[[Path], None]
