"""`gpudiag record`: a recording of this node, to replay or to hand on."""

from __future__ import annotations

import platform
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import click

from gpudiag.agent import config as configuration
from gpudiag.agent import probing, recorder, units
from gpudiag.agent.clock import Clock
from gpudiag.agent.config import Config
from gpudiag.agent.inventory import Inventory
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.writer import RecordingWriter
from gpudiag.agent.scheduler import Batch, Scheduler


@click.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A folder or .tar.gz.")
@click.option("--duration", default="60s", show_default=True, help="How long, such as 90s or 2h.")
@click.option("--agent", "url", help="Record what the agent at this address shows instead.")
@click.option("--config", "path", type=click.Path(path_type=Path), envvar="GPUDIAG_CONFIG")
@click.option("--max-size", default="1GiB", show_default=True, help="Stop at this size, unpacked.")
def command(out: Path, duration: str, url: str | None, path: Path | None, max_size: str) -> None:
    """Record this node's probes into OUT; Ctrl-C ends it early and completes it.

    With --agent there are samples only: an agent shows no events.
    Example: gpudiag record --out incident.tar.gz --duration 5m
    """
    seconds, limit = units.seconds(duration), units.size(max_size)
    config = configuration.load(path) if path else Config()
    clock = Clock()
    meta = Meta(config.node.name or platform.node(), "gpudiag record", clock.now())
    writer = RecordingWriter(out, meta, max_bytes=limit)
    # `kill` ends it as Ctrl-C does: with a whole recording.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    samples, events = recorder.write(_batches(url, config, clock, seconds), writer, clock)
    full = f", ended by --max-size {max_size}" if writer.full else ""
    click.echo(f"{samples} samples and {events} events{full}: gpudiag replay {out}")


def _batches(url: str | None, config: Config, clock: Clock, seconds: float) -> Iterator[Batch]:
    if url:
        return recorder.from_agent(lambda: recorder.scrape(url), clock, seconds, time.sleep)
    inventory = Inventory(config.node.expected_gpus or 0)
    scheduler = Scheduler(probing.build(config, inventory), clock)
    return recorder.from_probes(scheduler, inventory, clock, seconds)
