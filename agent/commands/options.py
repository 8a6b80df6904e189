"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from gpudiag.agent.asking import DEFAULT_URL
from gpudiag.alerts.shape import RUNBOOKS

agent = click.option(
    "--agent", "url", default=DEFAULT_URL, show_default=True, help="The agent's address."
)
token_file = click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="A file with the token of actions.token; else the variable GPUDIAG_TOKEN.",
)
runbooks = click.option(
    "--runbooks",
    default=RUNBOOKS,
    show_default=True,
    help="Where the runbooks are served: an agent's /runbooks, or your own copy of them.",
)
