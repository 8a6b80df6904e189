"""`gpudiag agent`: the daemon, or a recording served as if it were live."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from dataclasses import replace
from pathlib import Path

import click
import msgspec

from gpudiag.agent import config as configuration
from gpudiag.agent.config import Config
from gpudiag.probes.errors import UsageError


@click.command()
@click.option(
    "--config",
    "path",
    type=click.Path(path_type=Path),
    envvar="GPUDIAG_CONFIG",
    help="A YAML file; deploy/gpudiag.yaml shows every key.",
)
@click.option("--listen", help="HOST:PORT over the configuration's.  [default: 127.0.0.1:9440]")
@click.option("--replay", type=click.Path(path_type=Path), help="Serve a recording instead.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    help="How many times faster than it was recorded.",
)
def command(path: Path | None, listen: str | None, replay: Path | None, speed: float) -> None:
    """Watch this node: read its probes, judge, and show findings on a page, /metrics and an API.

    With no GPU it says so and goes on with what there is. SIGHUP reads the rules of the
    configuration again.
    Example: gpudiag agent --config /etc/gpudiag.yaml
    """
    config = _config(path, listen)
    logging.basicConfig(
        level=config.log.level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if replay:
        _play(config, replay, speed)
    else:
        _watch(config, path, listen)


def _config(path: Path | None, listen: str | None) -> Config:
    config = configuration.load(path) if path else Config()
    if listen:
        http = msgspec.structs.replace(config.http, listen=listen)
        config = msgspec.structs.replace(config, http=http)
    return config


def _watch(config: Config, path: Path | None, listen: str | None) -> None:
    from gpudiag.agent import allocator, state
    from gpudiag.agent.clock import Clock
    from gpudiag.agent.daemon import Daemon

    allocator.be_thrifty()
    folder = state.prepared(state.state_folder(os.environ, os.getuid()))
    reload = (lambda: _config(path, listen)) if path else None
    state.claimed(folder)
    daemon = Daemon(config, folder, clock=Clock(), reload=reload)
    # What is loaded by now stays: looked through again in every full collection, it would hold up
    # all threads, scrapes among them, for 20 ms.
    gc.collect()
    gc.freeze()
    daemon.run()


def _play(config: Config, path: Path, speed: float) -> None:
    if not speed > 0.0:
        raise UsageError(f"--speed {speed} is no speed: write a number such as 20")
    from gpudiag.agent import replay
    from gpudiag.agent.acting.planned import Rehearsed
    from gpudiag.agent.actions.rehearsal import Rehearsal
    from gpudiag.agent.daemon import agent_info
    from gpudiag.agent.exporters import control
    from gpudiag.agent.exporters.view import Snapshots
    from gpudiag.agent.live import LiveView
    from gpudiag.agent.replaying import Player
    from gpudiag.agent.serving import serve

    timeline = replay.load(path)
    rehearsal = Rehearsal()
    player = Player(timeline, replay.fresh_engine(), speed, rehearsal.turn)
    info = agent_info(config, timeline.start, replay=True)
    info = replace(info, replay_until=timeline.end, mode="dry-run")
    view = LiveView(info, player, player.now, list)
    click.echo(f"Replaying {path} at {speed:g} times its speed: http://{config.http.listen}/")
    player.thread.start()
    planned = control.routes(Rehearsed(rehearsal))
    asyncio.run(serve(Snapshots(view), config.http.listen, lambda: None, planned))
    player.stop()
