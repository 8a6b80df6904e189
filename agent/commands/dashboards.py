"""`gpudiag dashboards`: the Grafana dashboards that ship with gpudiag."""

from __future__ import annotations

from pathlib import Path

import click

from gpudiag.agent.commands import options
from gpudiag.agent.exporting import export
from gpudiag.alerts.shape import RUNBOOKS


@click.group()
def command() -> None:
    """Grafana dashboards: node, training job, memory, serving, incident, fleet, agents."""


@command.command("export")
@click.argument("folder", type=click.Path(path_type=Path))
@options.runbooks
def export_dashboards(folder: Path, runbooks: str) -> None:
    """Write the dashboards into FOLDER, as Grafana imports or provisions them.

    Example: gpudiag dashboards export /var/lib/grafana/dashboards
    """
    for path in export("gpudiag.dashboards.generated", ".json", folder, {RUNBOOKS: runbooks}):
        click.echo(path)
