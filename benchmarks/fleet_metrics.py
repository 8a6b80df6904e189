"""Writes the metrics of N nodes with planted faults as OpenMetrics, to be backfilled.

Run: python benchmarks/fleet_metrics.py FOLDER --nodes 100 --hours 24 --every 30
then, for each file: promtool tsdb create-blocks-from openmetrics FILE DATA
(or with --into DATA it does that itself and keeps one file at a time on disk). A file holds two
hours, the length of a block: promtool reads a file once for each block that it touches.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import fleet_dcgm, fleet_faults
from benchmarks.fleet_series import Floats, Made, Node

END = 1_767_225_600.0
"""When the history ends; a multiple of two hours, as blocks are."""

BLOCK = 7200.0


@dataclass(frozen=True)
class Fleet:
    """What is made up. `names` is gpudiag or dcgm; the last sample is one step before `end`."""

    nodes: int
    seconds: float
    every: float = 30.0
    names: str = "gpudiag"
    seed: int = 1
    end: float = END

    @property
    def start(self) -> float:
        return self.end - self.seconds

    @property
    def faults(self) -> list[fleet_faults.Fault]:
        return fleet_faults.planted(self.nodes, self.seconds, self.seed)


def files(fleet: Fleet, folder: Path) -> Iterator[Path]:
    """One file for each two hours; the caller may delete each before asking for the next."""
    at = fleet.start
    while at < fleet.end:
        until = min(fleet.end, (at // BLOCK + 1.0) * BLOCK)
        path = folder / f"fleet-{at:.0f}.om"
        with path.open("w") as file:
            for number in range(fleet.nodes):
                _write(file, fleet, number, np.arange(at, until, fleet.every))
            file.write("# EOF\n")
        yield path
        at = until


def backfill(fleet: Fleet, folder: Path, data: Path) -> int:
    """Write and take in, file after file; gives the number of samples."""
    samples = 0
    for path in files(fleet, folder):
        with path.open("rb") as file:
            samples += sum(1 for _ in file) - 1
        make = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", str(path), str(data)]
        subprocess.run(make, check=True, capture_output=True)
        path.unlink()
    return samples


def _write(file: TextIO, fleet: Fleet, number: int, times: Floats) -> None:
    stamps = [f" {time:.3f}\n" for time in times]
    for name, labels, values in _told(fleet, number, times - fleet.start):
        pairs = ",".join(f'{key}="{value}"' for key, value in labels.items())
        head = f"{name}{{{pairs}}} "
        told = values.tolist()
        file.write("".join([f"{head}{v:.9g}{t}" for v, t in zip(told, stamps, strict=True)
                            if v == v]))  # fmt: skip


def _told(fleet: Fleet, number: int, at: Floats) -> Iterator[Made]:
    node, name = Node(number, fleet.nodes, fleet.faults, fleet.seed), fleet_faults.node_name(number)
    address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    scrape = {"instance": f"{address}:9440", "node": name} | fleet_faults.places(number)
    if fleet.names == "dcgm":
        scrape = {"job": "dcgm-exporter", "instance": f"{address}:9400"}
        scrape |= fleet_faults.places(number)
        told = fleet_dcgm.told(name, node.series(at))
    else:
        told = (one for made in (node.series(at), node.findings(at)) for one in made)
    yield "up", {"job": "gpudiag"} | scrape, np.ones(len(at))
    for metric, labels, values in told:
        yield metric, scrape | labels, values


def main() -> None:
    """Write the files, or take them in; say what was planted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--every", type=float, default=30.0)
    parser.add_argument("--names", choices=("gpudiag", "dcgm"), default="gpudiag")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--end", type=float, default=END, help="epoch seconds")
    parser.add_argument("--into", type=Path, help="a Prometheus' data folder to fill")
    given = parser.parse_args()
    fleet = Fleet(
        given.nodes, given.hours * 3600.0, given.every, given.names, given.seed, given.end
    )
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.into:
        print(f"{backfill(fleet, given.folder, given.into)} samples", file=sys.stderr)
    else:
        for path in files(fleet, given.folder):
            print(path, file=sys.stderr)
    for fault in fleet.faults:
        print(json.dumps({"node": fleet_faults.node_name(fault.node), "symptom": fault.symptom,
                          "gpu": fault.gpu, "start": fleet.start + fault.start,
                          "end": fleet.start + fault.end}))  # fmt: skip


if __name__ == "__main__":
    main()
