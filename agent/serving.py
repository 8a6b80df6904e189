"""Serve snapshots over HTTP until a signal, on the loop of the main thread."""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from collections.abc import Callable, Sequence

from starlette.routing import Route

from gpudiag.agent.exporters.app import create_app
from gpudiag.agent.exporters.guard import LOOPBACK_NAMES
from gpudiag.agent.exporters.server import make_server
from gpudiag.agent.exporters.view import Snapshots
from gpudiag.probes.errors import GpudiagError, UsageError

log = logging.getLogger(__name__)

_PORT = re.compile("[0-9]{1,5}")
_LOOPBACK = ("127.", "::1", "localhost")


def address(listen: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT` or `[::1]:9440`; raises `UsageError`.

    The host must be said: to listen on the network is a choice, never what a missing word means.
    """
    host, _, port = listen.rpartition(":")
    if not host or not _PORT.fullmatch(port) or int(port) > 65535:
        raise UsageError(
            f"{listen!r} is not an address to listen on: write HOST:PORT, as 127.0.0.1:9440, or"
            " 0.0.0.0:9440 for every network"
        )
    return host.strip("[]"), int(port)


async def serve(
    snapshots: Snapshots,
    listen: str,
    on_hangup: Callable[[], None],
    more: Sequence[Route] = (),
) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP calls `on_hangup`.

    Raises `GpudiagError` where the address cannot be had.
    """
    host, port = address(listen)
    names = LOOPBACK_NAMES if host.startswith(_LOOPBACK) else None
    if names is None:
        log.warning("listening on %s: whoever reaches it can read what this node does", listen)
    server = make_server(create_app(snapshots, names, more), host, port)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, setattr, server, "should_exit", True)
    try:
        await server.serve()
    except UnicodeError as error:
        raise UsageError(f"{host[:100]!r} is no host name: write HOST:PORT") from error
    except SystemExit as error:
        # uvicorn has logged why; the usual reason is another agent on the same port.
        raise GpudiagError(
            f"cannot listen on {listen}: is another agent running? Choose with --listen"
        ) from error
