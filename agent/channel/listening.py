"""Where the channel listens, and who may speak on it."""

from __future__ import annotations

import errno
import grp
import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpudiag.probes.errors import GpudiagError, UsageError

MODE = 0o660
WAITING = 64


class Peer(NamedTuple):
    """The process at the other end as this machine sees it; `pid` 0 in a foreign pid namespace."""

    pid: int
    uid: int
    gid: int


def socket_path(environ: Mapping[str, str], uid: int) -> Path:
    """`GPUDIAG_SOCKET`, else `/run/gpudiag/agent.sock`, under `$XDG_RUNTIME_DIR` for users."""
    if named := environ.get("GPUDIAG_SOCKET"):
        return Path(named)
    runtime = environ.get("XDG_RUNTIME_DIR")
    return Path(runtime if uid and runtime else "/run") / "gpudiag" / "agent.sock"


def listen(path: Path, group: str = "") -> socket.socket:
    """The socket, listening with mode 0660; raises `GpudiagError` saying what stands against it.

    The folder is made where it is missing; a socket that nobody listens on any more is replaced.
    """
    gid = _group(group)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear(path)
        # Set before it has a name, so that at no moment more than the group can connect.
        os.fchmod(server.fileno(), MODE)
        server.bind(str(path))
        if gid is not None:
            os.chown(path, -1, gid)
        path.chmod(MODE)
        server.listen(WAITING)
        server.setblocking(False)
    except OSError as error:
        server.close()
        raise GpudiagError(
            f"cannot listen for training processes at {path}: {error};"
            " set GPUDIAG_SOCKET or channel.socket to a path that this user may write"
        ) from error
    except GpudiagError:
        server.close()
        raise
    return server


def peer_of(connection: socket.socket) -> Peer:
    """Who connected, as the kernel vouches for it."""
    size = struct.calcsize("3i")
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    return Peer(*struct.unpack("3i", raw))


def _group(name: str) -> int | None:
    if not name:
        return None
    try:
        return int(name) if name.isdigit() else grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise UsageError(f"channel.group: no group is called {name!r} on this machine") from error


def _clear(path: Path) -> None:
    """Remove a socket left behind; raises where somebody listens or it is no socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if not path.is_socket():
                raise GpudiagError(f"{path} is in the way and no socket: remove it") from None
            path.unlink()
            return
        except OSError as error:
            # A full backlog says EAGAIN: somebody listens there all the same.
            if error.errno not in (errno.EAGAIN, errno.EPROTOTYPE):
                raise
    raise GpudiagError(f"another agent listens at {path}: set GPUDIAG_SOCKET to a path of its own")
