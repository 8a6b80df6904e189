"""The channel's thread: listens, reads, sends, and hands what it learns to the writer's queue."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import selectors
import signal
import socket
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from gpudiag.agent.channel import listening, packets
from gpudiag.agent.channel.commands import TIMEOUT, Commands, Result
from gpudiag.agent.channel.connection import ALLOWANCE, Closed, Connection
from gpudiag.agent.channel.roster import Roster
from gpudiag.agent.clock import Clock
from gpudiag.agent.scheduler import ProbeStatus
from gpudiag.probes import Event, Sample
from gpudiag.probes.errors import GpudiagError

log = logging.getLogger(__name__)

TURN_SECONDS = 0.25
RETRY_SECONDS = 30.0
JOIN_SECONDS = 1.0
MAX_CONNECTIONS = 256

Put = Callable[[list[Sample], list[Event]], None]


class ChannelServer:
    """Serves the training processes of this node; also the `Channel` that commands go down by."""

    def __init__(
        self,
        path: Path,
        put: Put,
        clock: Clock,
        roster: Roster,
        *,
        group: str = "",
        uids: Collection[int] = (),
    ) -> None:
        """`uids` may connect besides root and this user; where there are none, file rights rule."""
        self._path, self._group, self._uids = path, group, uids
        self._put, self._clock, self._roster = put, clock, roster
        self._commands = Commands(roster.ranks, self._hand_down)
        self._status = ProbeStatus("channel")
        self._connections: dict[int, Connection] = {}
        self._down: queue.SimpleQueue[dict[int, bytes]] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._ends: queue.SimpleQueue[packets.Exit] = queue.SimpleQueue()
        self._selector = selectors.DefaultSelector()
        self._awake, self._wake = socket.socketpair()
        self._server: socket.socket | None = None
        self._allowed_anew = 0.0
        self._thread = threading.Thread(target=self._run, name="channel", daemon=True)

    def start(self) -> None:
        """Listen, and serve in a thread of its own; where that fails it is tried again."""
        self._awake.setblocking(False)
        self._selector.register(self._awake, selectors.EVENT_READ)
        self._listen()
        self._thread.start()

    def stop(self) -> None:
        """Hang up on everybody and remove the socket."""
        self._stop.set()
        self._rouse()
        self._thread.join(JOIN_SECONDS)

    def status(self) -> ProbeStatus:
        """Whether it listens, and why not; any thread may ask."""
        return self._status

    def pids(self, job: str) -> list[int]:
        """The processes of a job's ranks that this node's kernel vouches for."""
        return [rank.pid for rank in self._roster.ranks(job) if rank.seen]

    def owner(self, job: str, rank: int) -> int | None:
        """The user that a rank of this node runs as, as the kernel knows it; None without one."""
        return next((r.uid for r in self._roster.ranks(job) if r.rank == rank), None)

    def signalled(self, pid: int, number: signal.Signals) -> None:
        """The agent itself ended a rank by this signal; any thread may tell."""
        told = packets.Exit(time=self._clock.now(), pid=pid, code=-number)
        self._ends.put(told)
        self._rouse()

    def command(
        self,
        job: str,
        name: str,
        args: Mapping[str, Any],
        *,
        timeout: float = TIMEOUT,
        rank: int | None = None,
    ) -> list[Result]:
        """See `Channel.command`."""
        return self._commands.run(job, name, args, timeout, rank)

    def _listen(self) -> None:
        try:
            server = listening.listen(self._path, self._group)
        except GpudiagError as error:
            if self._status.detail != str(error):
                log.warning("channel: %s", error)
            self._status = ProbeStatus("channel", ok=False, detail=str(error))
            return
        self._server = server
        self._selector.register(server, selectors.EVENT_READ)
        self._status = ProbeStatus("channel", last_success=self._clock.now())

    def _run(self) -> None:
        retry = self._clock.monotonic() + RETRY_SECONDS
        while not self._stop.is_set():
            if self._server is None and self._clock.monotonic() >= retry:
                retry = self._clock.monotonic() + RETRY_SECONDS
                self._listen()
            try:
                self._turn()
            except Exception:
                # One packet's trouble must not take the channel of every other rank with it.
                log.exception("channel: a turn failed")
                self._stop.wait(TURN_SECONDS)
        self._close()

    def _turn(self) -> None:
        for key, mask in self._selector.select(TURN_SECONDS):
            if self._server is not None and key.fileobj is self._server:
                self._accept(self._server)
            elif key.fileobj is self._awake:
                self._pass_down()
            else:
                self._serve(key.data, mask)
        now = self._clock.now()
        if not 0.0 <= now - self._allowed_anew < 1.0:
            self._allowed_anew = now
            for connection in self._connections.values():
                connection.left = ALLOWANCE
                self._watch(connection)
        while not self._ends.empty():
            self._roster.parent_told(self._ends.get(), now)
        self._roster.tick(now)
        samples, events = self._roster.drain()
        if samples or events:
            self._put(samples, events)
        if self._server is not None:
            self._status = ProbeStatus("channel", last_success=now)

    def _accept(self, server: socket.socket) -> None:
        try:
            accepted, _ = server.accept()
        except OSError as error:
            log.warning("channel: cannot accept a connection: %s", error)
            return
        peer = listening.peer_of(accepted)
        if len(self._connections) >= MAX_CONNECTIONS or not self._may(peer.uid):
            self._roster.counts["refused"] += 1
            log.warning("channel: refused pid %d of user %d", peer.pid, peer.uid)
            accepted.close()
            return
        connection = Connection(accepted, peer, self._roster.traffic)
        self._connections[accepted.fileno()] = connection
        self._selector.register(accepted, selectors.EVENT_READ, connection)

    def _may(self, uid: int) -> bool:
        return not self._uids or uid in self._uids or uid in (0, os.getuid())

    def _serve(self, connection: Connection, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            connection.flush()
        if mask & selectors.EVENT_READ:
            try:
                for data in connection.packets():
                    self._take(connection, data)
            except Closed:
                self._hang_up(connection)
                return
        self._watch(connection)

    def _take(self, connection: Connection, data: bytes) -> None:
        counts, now = self._roster.counts, self._clock.now()
        try:
            packet = packets.parse(data)
        except packets.Malformed as error:
            counts["malformed"] += 1
            log.debug("channel: malformed packet of pid %d: %s", connection.peer.pid, error)
            return
        rank = connection.rank
        if isinstance(packet, packets.Hello):
            connection.rank = self._roster.hello(rank, packet, connection.peer, now)
        elif isinstance(packet, packets.Exit):
            self._roster.parent_told(packet, now)
        elif packet is None or rank is None:
            counts["ignored"] += 1
            return
        elif isinstance(packet, packets.Reply):
            self._commands.reply(rank, packet)
        else:
            self._roster.take(rank, packet, now)
        counts["taken"] += 1

    def _hang_up(self, connection: Connection) -> None:
        del self._connections[connection.socket.fileno()]
        self._selector.unregister(connection.socket)
        connection.close()
        if connection.rank is not None:
            self._commands.gone(connection.rank)
            self._roster.lost(connection.rank, self._clock.now())

    def _watch(self, connection: Connection) -> None:
        """Ask for what the connection may do now; a chatty one rests until the next second."""
        wanted = selectors.EVENT_READ if connection.left > 0 else 0
        wanted |= selectors.EVENT_WRITE if connection.wants_to_send else 0
        known = self._selector.get_map().get(connection.socket)
        if known is None and wanted:
            self._selector.register(connection.socket, wanted, connection)
        elif known is not None and not wanted:
            self._selector.unregister(connection.socket)
        elif known is not None and known.events != wanted:
            self._selector.modify(connection.socket, wanted, connection)

    def _hand_down(self, by_pid: dict[int, bytes]) -> None:
        self._down.put(by_pid)
        self._rouse()

    def _rouse(self) -> None:
        # Closed where the channel has ended: then there is nobody to rouse.
        with contextlib.suppress(OSError):
            self._wake.send(b"\0")

    def _pass_down(self) -> None:
        self._awake.recv(4096)
        while not self._down.empty():
            by_pid = self._down.get()
            for connection in self._connections.values():
                if connection.rank is not None and connection.rank.pid in by_pid:
                    connection.send(by_pid[connection.rank.pid])
                    self._watch(connection)

    def _close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)
        self._selector.close()
        self._awake.close()
        self._wake.close()
