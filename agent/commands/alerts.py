"""`gpudiag alerts`: the Prometheus rule files that ship with gpudiag."""

from __future__ import annotations

from pathlib import Path

import click

from gpudiag.agent.exporting import export


@click.group()
def command() -> None:
    """Prometheus alert rules, one per symptom, each with its runbook."""


@command.command("export")
@click.argument("folder", type=click.Path(path_type=Path))
def export_rules(folder: Path) -> None:
    """Write the rule files into FOLDER: for Prometheus itself and for its operator.

    With them an example for Alertmanager (routes, inhibition) and the texts it sends.

    Example: gpudiag alerts export /etc/prometheus/rules
    """
    for path in export("gpudiag.alerts.generated", (".yaml", ".tmpl"), folder):
        click.echo(path)
