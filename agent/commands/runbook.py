"""`gpudiag runbook`: a symptom's page, in the terminal."""

from __future__ import annotations

import click
from rich.console import Console
from rich.markdown import Markdown

from gpudiag.agent import pages
from gpudiag.probes import catalog


def _is_xid(word: str) -> bool:
    return word.startswith("xid-") and word[4:].isdigit()


@click.command()
@click.argument("symptom", required=False)
@click.option("--plain", is_flag=True, help="Markdown as it is written, for pipes.")
def command(symptom: str | None, plain: bool) -> None:
    """Show the runbook of SYMPTOM, or its section for one cause: SYMPTOM#CAUSE.

    Without SYMPTOM, list the pages there are. Example: gpudiag runbook gpu-xid#xid-79
    """
    if symptom is None:
        for name in pages.names():
            click.echo(f"{name:28}{catalog.symptoms()[name].title}")
        return
    # `xid-79` is what one has in hand when the kernel has spoken.
    asked = f"gpu-xid#{symptom}" if _is_xid(symptom) else symptom
    name, _, cause = asked.partition("#")
    text = pages.section(name, cause) if cause else pages.page(name)
    if plain:
        click.echo(text)
    else:
        Console().print(Markdown(text))
