"""`gpudiag leak-report`: what leaks, who holds it, how fast, when it ends, or that nothing does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpudiag.agent import units
from gpudiag.agent.analysis.memory.asked import Asked
from gpudiag.agent.analysis.memory.digest import Digest
from gpudiag.agent.asking import DEFAULT_URL
from gpudiag.agent.commands.leaks import reading
from gpudiag.probes.catalog import SEVERITIES, gravity
from gpudiag.probes.errors import UsageError

if TYPE_CHECKING:
    from gpudiag.agent.analysis.memory.compare import Change
    from gpudiag.agent.analysis.memory.report import Report

CANNOT_TELL = 3


class _Size(click.ParamType[int]):
    """`80GiB`."""

    name = "size"

    def convert(self, value: str | int, _p: object, _c: object) -> int:
        return value if isinstance(value, int) else units.size(value)


class _Sizes(click.ParamType[tuple[int, ...]]):
    """`10GiB,11GiB`: one figure per snapshot."""

    name = "size,size,..."

    def convert(self, value: str | tuple[int, ...], _p: object, _c: object) -> tuple[int, ...]:
        return value if isinstance(value, tuple) else tuple(map(units.size, value.split(",")))


@click.command()
@click.argument("snapshots", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="One object, documented in gpudiag.agent.commands.leaks.plain.",
)
@click.option(
    "--html", type=click.Path(path_type=Path), help="Also write a page, readable offline."
)
@click.option("--diff", is_flag=True, help="Put the first and the last snapshot side by side.")
@click.option("--rank", type=int, help="Only files whose path names this rank (rank3).")
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="Rows a table.")
@click.option(
    "--steps",
    type=click.IntRange(1),
    help="Training steps between two snapshots, or in one's recording.",
)
@click.option("--capacity", type=_Size(), help="The device's memory (80GiB), for the time to OOM.")
@click.option("--free", type=_Size(), help="What the device has left, where you know it better.")
@click.option("--process-used", type=_Sizes(), default=(), help="Of the device, at each snapshot.")
@click.option("--host-used", type=_Sizes(), default=(), help="Host memory, at each snapshot.")
@click.option("--census", type=click.Path(path_type=Path), help="Who holds live tensors (JSON).")
@click.option("--job", help="A running job, in place of files; with --rank, else its rank 0.")
@click.option(
    "--agent", "url", default=DEFAULT_URL, show_default=True, help="With --job: who asks."
)
@click.option("--token-file", type=click.Path(path_type=Path), help="Else GPUDIAG_TOKEN.")
@click.option("--max-size", type=_Size(), default="4GiB", show_default=True, help="Of one file.")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="Exit 1 when the verdict is of this severity or worse.",
)
@click.pass_context
def command(
    ctx: click.Context,
    *,
    snapshots: tuple[Path, ...],
    as_json: bool,
    html: Path | None,
    diff: bool,
    rank: int | None,
    top: int,
    steps: int | None,
    capacity: int | None,
    free: int | None,
    process_used: tuple[int, ...],
    host_used: tuple[int, ...],
    census: Path | None,
    job: str | None,
    url: str,
    token_file: Path | None,
    max_size: int,
    fail_on: str,
) -> None:
    """Say what grows in torch memory SNAPSHOTS (files or folders; .pickle, .pkl, .json, .gz).

    With --job instead of files, the running agent looks at that job's rank: three short recordings.

    One snapshot with its recording is enough for ten steps or more; several tell growth without.
    Take one with torch.cuda.memory._dump_snapshot("a.pickle"). No code of a file is ever run.
    Example: gpudiag leak-report step100.pickle step200.pickle --capacity 80GiB --html report.html
    """
    if job is not None:
        ctx.exit(_live(url, job, rank or 0, token_file, as_json=as_json))
    asked = Asked(
        every=steps,
        capacity=capacity,
        free=free,
        used=process_used,
        host=host_used,
        census=reading.census(census),
    )
    if not snapshots:
        raise UsageError("name the SNAPSHOTS to read, or a running job with --job")
    chosen = reading.files(snapshots, rank)
    files = reading.digests(chosen, max_size, shown=sys.stderr.isatty())
    if not any(digest.devices for _, digest in files):
        raise UsageError("the snapshots are empty: no device had memory when they were taken")
    from gpudiag.agent.analysis.memory.report import report

    made = report(files, asked)
    changes = _changes([digest for _, digest in files]) if diff else None
    if html:
        _write(html, made)
    if as_json:
        from gpudiag.agent.commands.leaks.plain import plain

        click.echo(json.dumps(plain(made, top, changes)))
    else:
        _show(made, changes, top)
    ctx.exit(_exit_code(made, fail_on))


def _live(url: str, job: str, rank: int, token_file: Path | None, *, as_json: bool) -> int:
    """Show what the agent found in a job that runs; the exit code: 1 a line, 3 none."""
    from gpudiag.agent.commands.leaks import live

    found = live.captured(url, job, rank, token_file)
    if as_json:
        click.echo(json.dumps(found))
    else:
        click.echo(found["summary"])
        if found["site"]:
            click.echo(f"grows at {found['site']}: {found['per_step']:+,.0f} bytes per step")
            click.echo(f"runbook: gpudiag runbook 'memory-slow-growth#{found['cause']}'")
        for name in found["files"]:
            click.echo(f"kept on that node: {name}")
    return 1 if found["site"] else 3


def _changes(files: list[Digest]) -> list[Change]:
    if len(files) < 2:
        raise UsageError("--diff needs two snapshots or more: name the one before, too")
    from gpudiag.agent.analysis.memory.compare import compare

    return compare(files[0].devices[0], files[-1].devices[0])


def _show(made: Report, changes: list[Change] | None, top: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from gpudiag.agent.commands.leaks import tables, terminal

    console = Console(highlight=False)
    terminal.show(console, made, top)
    if changes is not None:
        console.print(Text("First and last snapshot side by side", style="bold"))
        console.print(tables.changes(changes, top))


def _write(path: Path, made: Report) -> None:
    from gpudiag.agent.commands.leaks.page import page

    try:
        path.write_text(page(made), "utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error


def _exit_code(made: Report, fail_on: str) -> int:
    limit = gravity(fail_on)
    grave = [p.verdict.severity for p in made.parts if p.verdict.severity]
    if any(gravity(severity) >= limit for severity in grave):
        return 1
    return CANNOT_TELL if any(p.verdict.kind == "cannot tell" for p in made.parts) else 0
