"""The command line: which commands there are, and the one place that exits."""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module

import click

from gpudiag.agent.pages import meant
from gpudiag.probes.errors import GpudiagError

_COMMANDS = {
    "actions": "List, approve or deny actions; reset the breaker.",
    "alerts": "Write the Prometheus alert rules into a folder.",
    "agent": "Watch this node; show findings on a page, /metrics and an API.",
    "bundle": "Gather what a ticket about one finding needs, without secrets.",
    "budget": "Say whether a model fits, and the cheapest change that makes it fit.",
    "dashboards": "Write the Grafana dashboards into a folder.",
    "diagnose": "Judge the history that a Prometheus already has.",
    "doctor": "Look once at this node: driver, GPUs, links, kernel log, rights.",
    "explain": "Say what a log, an OOM message or kernel lines give away.",
    "findings": "List findings; say that you are on one, or whether it was right.",
    "fleet": "Show nodes, jobs and findings of a fleet, worst first.",
    "leak-report": "Say what leaks in torch memory snapshots, how fast, and what to do.",
    "record": "Record what this node's probes give, for a later replay.",
    "replay": "Run the rules over an incident file or a recording.",
    "runbook": "Show the runbook of a symptom.",
    "run": "Start a training command with the hooks attached, no code change.",
    "status": "Show what the running agent knows.",
    "top": "Watch the ranks of training jobs beside their GPUs.",
}


class _Commands(click.Group):
    """Commands by name; a module is imported only when its command is called for."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = cmd_name.replace("-", "_")
        try:
            command: click.Command = import_module(f"gpudiag.agent.commands.{module}").command
        except ModuleNotFoundError as error:
            raise GpudiagError(
                f"`gpudiag {cmd_name}` needs {error.name}: pip install 'gpudiag[agent]'"
            ) from error
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the name that was probably meant."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"No such command {args[0]!r}.{meant(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click would import every command for its first line, and numpy and yaml with them.
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


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
    except OSError as error:
        # What stdout still holds would fail once more at the end, and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        click.echo(f"gpudiag: {error}", err=True)
        sys.exit(GpudiagError.exit_code)
    except Exception:
        # Python's own code for this is 1, which here says that there are findings.
        traceback.print_exc()
        click.echo("gpudiag: this is a fault of gpudiag: report it with the lines above", err=True)
        sys.exit(GpudiagError.exit_code)
