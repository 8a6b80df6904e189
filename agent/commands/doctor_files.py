"""What `gpudiag doctor` does with files: saves a manifest, compares with one, checks weights."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.progress import Progress

from gpudiag.agent.commands.output import Screen
from gpudiag.agent.doctor.report import Line
from gpudiag.probes.errors import GpudiagError
from gpudiag.probes.manifest.comparing import differences
from gpudiag.probes.manifest.taking import load, take
from gpudiag.probes.manifest.weights import BLOCK, Fault, faults

AREA_ENVIRONMENT, AREA_WEIGHTS = "manifest", "weights"


def save(path: Path, environ: Mapping[str, str], python: str) -> Line:
    """Write the manifest of this environment; raises `GpudiagError` where that is refused."""
    taken = take(environ, python)
    try:
        path.write_text(taken.to_json())
    except OSError as error:
        raise GpudiagError(f"cannot write {path}: {error}") from error
    seen = f"{len(taken.packages)} packages, {len(taken.variables)} variables saved in {path}"
    return Line(AREA_ENVIRONMENT, "saved", "ok", seen, "Keep it beside the deployment.")


def compare(path: Path, environ: Mapping[str, str], python: str) -> list[Line]:
    """One line for each thing that is not as it was recorded."""
    found = differences(load(path), take(environ, python))
    if not found:
        return [Line(AREA_ENVIRONMENT, "compared", "ok", f"nothing differs from {path}")]
    todo = "Bring back what was, or record anew once it is known to be well."
    return [
        Line(AREA_ENVIRONMENT, f"{one.kind} {one.name}".strip(), "warning", one.line, todo)
        for one in found
    ]


def check(folders: Sequence[Path], *, sha256: bool, shown: bool) -> list[Line]:
    """One line for each fault of the weights, or one for each folder that is whole."""
    lines = []
    for folder in folders:
        found = _read(folder, sha256=sha256, shown=shown)
        todo = "Fetch it again, and compare digests before loading."
        lines += [Line(AREA_WEIGHTS, f.file, "critical", f.line, todo) for f in found]
        if not found:
            how = "sizes and digests" if sha256 else "index, shards and sizes"
            lines.append(Line(AREA_WEIGHTS, folder.name, "ok", f"{how} are as they should be"))
    return lines


def _read(folder: Path, *, sha256: bool, shown: bool) -> list[Fault]:
    if not (sha256 and shown):
        return faults(folder, digests=sha256)
    total = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
    with Progress(console=Screen(stderr=True)) as bar:
        task = bar.add_task(folder.name, total=max(total, BLOCK))
        return faults(
            folder,
            digests=True,
            tell=lambda name, size: bar.update(task, advance=size, description=name),
        )
