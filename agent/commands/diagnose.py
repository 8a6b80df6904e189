"""`gpudiag diagnose`: what a Prometheus already knows, through the rules."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import click

from gpudiag.agent import units
from gpudiag.agent.commands import across_screen, backtest_screen, output
from gpudiag.agent.commands.diagnose_screen import about, show
from gpudiag.agent.config import load
from gpudiag.agent.fleet.across import across
from gpudiag.agent.history import page
from gpudiag.agent.history.access import Access, access
from gpudiag.agent.history.backtest import backtest
from gpudiag.agent.history.diagnosing import Diagnosed, Question, diagnose
from gpudiag.agent.history.listing import Chosen
from gpudiag.agent.history.presence import presence
from gpudiag.agent.history.report import episodes, failed, untold
from gpudiag.probes.errors import GpudiagError, UsageError

CANNOT_TELL = 3
_PATH = click.Path(path_type=Path)


def with_access(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say how a Prometheus is reached, given as `reach`'s arguments."""
    for option in reversed(_ACCESS):
        command = option(command)
    return command


_ACCESS = (
    click.option(
        "--prometheus", "url", required=True, envvar="GPUDIAG_PROMETHEUS", help="Its address."
    ),
    click.option("--token-file", type=_PATH, help="Bearer token; or GPUDIAG_PROMETHEUS_TOKEN."),
    click.option(
        "--basic-auth-file", type=_PATH, help="user:password; or GPUDIAG_PROMETHEUS_BASIC."
    ),
    click.option(
        "--header-file", type=_PATH, help="`Name: value` lines; or GPUDIAG_PROMETHEUS_HEADERS."
    ),
    click.option("--ca", type=_PATH, help="Authority of the server's certificate, PEM."),
    click.option("--cert", type=_PATH, help="Client certificate, PEM."),
    click.option("--key", type=_PATH, help="Its key, PEM, without a passphrase."),
)


def reach(options: dict[str, Path | None], url: str) -> Access:
    """The access that the options of `with_access` give; takes them out of `options`."""
    return access(
        url,
        os.environ,
        token_file=options.pop("token_file"),
        basic_file=options.pop("basic_auth_file"),
        header_file=options.pop("header_file"),
        ca=options.pop("ca"),
        cert=options.pop("cert"),
        key=options.pop("key"),
    )


@click.command()
@with_access
@click.option("--since", default="6h", show_default=True, help="Look back so far from --end.")
@click.option("--start", help="From then on: 2026-12-01T03:10, local unless it says Z, or seconds.")
@click.option("--end", help="Until then; now, if left out.")
@click.option("--job", default="", help="Only the ranks of this training job, and their nodes.")
@click.option("--node", default="", help="Only this node.")
@click.option("--namespace", default="", help="Only nodes that run its pods, and those pods.")
@click.option(
    "--step",
    help="Time between evaluations; if left out the scrape interval, a minute from 6 h on, two"
    " from a day on.",
)
@click.option("--json", "as_json", is_flag=True, help="One finding a line, then what nodes share.")
@click.option("--html", type=_PATH, help="Write a page that needs nothing else.")
@click.option("--incident", type=_PATH, help="Keep what was read: recordings for gpudiag replay.")
@click.option(
    "--rules", type=_PATH, help="What these settings (the file's `rules:`) would have raised."
)
@click.option("--workers", type=click.IntRange(0, 64), default=0, help="Processes; 0: one a CPU.")
@output.fail_on
@click.pass_context
def command(
    ctx: click.Context,
    /,
    url: str,
    since: str,
    start: str | None,
    end: str | None,
    job: str,
    node: str,
    namespace: str,
    step: str | None,
    as_json: bool,
    html: Path | None,
    incident: Path | None,
    rules: Path | None,
    workers: int,
    fail_on: str,
    **options: Path | None,
) -> None:
    """Judge the history in a Prometheus, VictoriaMetrics, Thanos or Mimir; nothing to install.

    What it cannot tell is said, with the exporter's field that would. Ctrl-C gives what is known
    so far. Metrics alone hold no log lines: for those, run the agent.
    With --rules it is judged twice, to tune thresholds before actions are turned on.
    Example: gpudiag diagnose --prometheus http://127.0.0.1:9090 --since 24h
    """
    began, ended = span(since, start, end, time.time())
    question = Question(
        reach(options, url),
        began,
        ended,
        step=units.seconds(step) if step else 0.0,
        chosen=Chosen(job, node, namespace),
        incident=incident,
        traces=html is not None,
    )
    if rules:
        ctx.exit(_compare(question, rules, workers, as_json=as_json))
    found = diagnose(question, _progress(sys.stderr.isatty()), workers)
    if not found.listing.nodes:
        raise GpudiagError(_nothing(question))
    there = presence(found.listing)
    whole, blind = across(question, found.listing, episodes(found)), untold(found, there)
    told = whole.episodes
    if html:
        together = across_screen.sentences(whole)
        asked = about(found, there)
        html.write_text(page.page(question, found, asked, told, blind, together), "utf-8")
    if as_json:
        ours = [one.to_json() for one in told] + [one.to_json() for one in blind]
        for line in [*ours, *across_screen.lines(whole)]:
            click.echo(json.dumps(line))
    else:
        console = output.Screen(highlight=False)
        show(console, question, found, there, told, blind)
        across_screen.show(console, whole)
    for judged in failed(found):
        click.echo(f"{judged.node}: not judged to the end: {judged.failed}", err=True)
    ctx.exit(_exit_code(found, [e.to_json() for e in told], bool(blind), fail_on))


def _compare(question: Question, rules: Path, workers: int, *, as_json: bool) -> int:
    """What other settings would have raised; the exit code says whether all of it was judged."""
    if question.incident or question.traces:
        raise UsageError("--rules compares two answers: leave --html and --incident out")
    changed = load(rules).rules
    if not changed:
        raise UsageError(f"{rules}: no rule is changed there: write thresholds under `rules:`")
    found = backtest(question, changed, _progress(sys.stderr.isatty()), workers)
    if not found.now.listing.nodes:
        raise GpudiagError(_nothing(question))
    if as_json:
        for one in found.symptoms:
            click.echo(json.dumps(one.to_json()))
    else:
        backtest_screen.show(output.Screen(highlight=False), found, rules.name)
    short = [*failed(found.now), *failed(found.then)]
    for judged in short:
        click.echo(f"{judged.node}: not judged to the end: {judged.failed}", err=True)
    return CANNOT_TELL if short else 0


def span(since: str, start: str | None, end: str | None, now: float) -> tuple[float, float]:
    """Start and end in epoch seconds; raises `UsageError`."""
    ended = moment(end, "--end") if end else now
    began = moment(start, "--start") if start else ended - units.seconds(since)
    if not 0.0 <= began < ended:
        raise UsageError("--start must be before --end, and both after 1970")
    return began, ended


def moment(text: str, option: str) -> float:
    """Epoch seconds of what was given as `option`; raises `UsageError`."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{option} {text!r} is not a time: write 2026-12-01T03:10") from error


def _progress(terminal: bool) -> Callable[[str, float], None]:
    """A line on a terminal that is written over; elsewhere a line for each node at its end."""
    done: dict[str, float] = {}

    def tell(node: str, part: float) -> None:
        done[node] = part
        if terminal:
            click.echo(f"\r{node[:40]} {part:4.0%}, {len(done)} nodes\x1b[K", err=True, nl=False)
            if part >= 1.0:
                click.echo("\r\x1b[K", err=True, nl=False)
        elif part >= 1.0:
            click.echo(f"{node}: read", err=True)

    return tell


def _nothing(question: Question) -> str:
    chosen = question.chosen
    if chosen.job or chosen.node or chosen.namespace:
        return "no series of it in that time: look without --job, --node and --namespace"
    return (
        "no series that rules read in that time: is a GPU exporter scraped there? Try a longer"
        " --since, or look at the server's targets"
    )


def _exit_code(found: Diagnosed, told: list[dict[str, object]], blind: bool, fail_on: str) -> int:
    # What fired in the time asked for counts, though it may be over.
    was = [one | {"state": "firing"} for one in told]
    return output.exit_code(was, fail_on) or (CANNOT_TELL if blind or failed(found) else 0)
