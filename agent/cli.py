"""The command line: which commands there are, and the one place that exits."""

from __future__ import annotations

import sys
from importlib import import_module

import click

from gpudiag.probes.errors import GpudiagError

_COMMANDS = {
    "agent": "gpudiag.agent.commands.agent",
    "doctor": "gpudiag.agent.commands.doctor",
    "record": "gpudiag.agent.commands.record",
    "replay": "gpudiag.agent.commands.replay",
    "runbook": "gpudiag.agent.commands.runbook",
    "status": "gpudiag.agent.commands.status",
}


class _Commands(click.Group):
    """Commands by name; a module is imported only when its command is called for."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        path = _COMMANDS.get(cmd_name)
        if path is None:
            return None
        try:
            command: click.Command = import_module(path).command
        except ModuleNotFoundError as error:
            raise GpudiagError(
                f"`gpudiag {cmd_name}` needs {error.name}: pip install 'gpudiag[agent]'"
            ) from error
        return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gpudiag")
def root() -> None:
    """Which documented cause explains what this GPU job is doing, and the safe next step.

    Exit codes: 0 fine, 1 findings at or above --fail-on, 2 usage, 3 cannot tell or could not run.
    """


def main() -> None:
    """Entry point of `gpudiag`."""
    try:
        # Outside its standalone mode click gives the code of `ctx.exit` back instead of exiting.
        sys.exit(root.main(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except GpudiagError as error:
        click.echo(f"gpudiag: {error}", err=True)
        sys.exit(error.exit_code)
