"""`gpudiag alerts`: the Prometheus rule files that ship with gpudiag."""

from __future__ import annotations

from pathlib import Path

import click

from gpudiag.agent.commands import options
from gpudiag.agent.exporting import export
from gpudiag.alerts.shape import GRAFANA, RUNBOOKS


@click.group()
def command() -> None:
    """Prometheus alert rules, one per symptom, each with its runbook."""


@command.command("export")
@click.argument("folder", type=click.Path(path_type=Path))
@options.runbooks
@click.option(
    "--grafana",
    default=GRAFANA,
    show_default=True,
    help="Where Grafana shows the dashboards: dashboard_url leads there.",
)
def export_rules(folder: Path, runbooks: str, grafana: str) -> None:
    """Write the rule files into FOLDER: for Prometheus itself and for its operator.

    With them an example for Alertmanager (routes, inhibition) and the texts it sends.

    Example: gpudiag alerts export /etc/prometheus/rules --grafana https://grafana.example
    """
    own = {RUNBOOKS: runbooks, GRAFANA: grafana}
    for path in export("gpudiag.alerts.generated", (".yaml", ".tmpl"), folder, own):
        click.echo(path)
