"""`gpudiag run`: start a training command with the hooks in it, no code change."""

from __future__ import annotations

import os
from pathlib import Path

import click

from gpudiag.agent.channel.listening import socket_path
from gpudiag.agent.running import child


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--job", help="How the job is called.  [default: GPUDIAG_JOB, else the script]")
@click.option("--socket", "path", type=click.Path(path_type=Path), help="The agent's socket.")
@click.argument("command_line", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def command(
    ctx: click.Context, job: str | None, path: Path | None, command_line: tuple[str, ...]
) -> None:
    """Start a training command with the hooks attached, and tell the agent how it ended.

    Works with or without an agent; ends as the command ends (128 + N for signal N).
    Example: gpudiag run -- torchrun --nproc-per-node 8 train.py
    """
    path = path or socket_path(os.environ, os.getuid())
    environ = child.environment(os.environ, command_line, path)
    if job:
        environ["GPUDIAG_JOB"] = job
    try:
        pid, code = child.run(command_line, environ)
    except FileNotFoundError:
        click.echo(f"gpudiag: {command_line[0]}: command not found", err=True)
        ctx.exit(child.NOT_FOUND)
    except OSError as error:
        click.echo(f"gpudiag: cannot start {command_line[0]}: {error}", err=True)
        ctx.exit(child.NOT_EXECUTABLE)
    name = Path(command_line[0]).name
    child.tell(path, pid, code, job=environ["GPUDIAG_JOB"], name=name)
    ctx.exit(child.exit_code(code))
