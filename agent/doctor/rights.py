"""Doctor's lines about rights: which this process has, and what goes blind without the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpudiag.agent.doctor import container_logs
from gpudiag.agent.doctor.look import Look
from gpudiag.agent.doctor.report import Line
from gpudiag.agent.kubernetes.account import MOUNT, account
from gpudiag.agent.state import state_folder
from gpudiag.probes.catalog.rights import Right, rights
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.logs.places import CONTAINERS, DOCKER

AREA = "rights"
CAP_KILL, CAP_SYS_PTRACE = 5, 19
# The first namespaces have fixed numbers (linux/proc_ns.h); any other is a container's own.
HOST_PIDS, HOST_GROUPS = "pid:[4026531836]", "cgroup:[4026531835]"


@dataclass(frozen=True, slots=True)
class Process:
    """What is known of this process: its environment, user, and where /proc and /dev are."""

    environ: Mapping[str, str]
    uid: int
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    logs: Sequence[Path] = (CONTAINERS, DOCKER)
    account: Path = MOUNT

    def has_capability(self, number: int) -> bool:
        """Whether the effective set holds it."""
        for line in (self.proc / "self/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "CapEff":
                return bool(int(value, 16) >> number & 1)
        return False

    def namespace(self, kind: str) -> str:
        """The namespace's name, such as `pid:[4026531836]`."""
        return os.readlink(self.proc / "self/ns" / kind)

    def socket_folder(self) -> Path:
        """Where the agent's socket lies: as set, `/run/gpudiag` for root, else the user's own."""
        if named := self.environ.get("GPUDIAG_SOCKET"):
            return Path(named).parent
        runtime = self.environ.get("XDG_RUNTIME_DIR")
        return Path(runtime or "/run") / "gpudiag" if self.uid else Path("/run/gpudiag")


Missing = str
"""What is missing; empty where the right is there."""


def lines(look: Look, process: Process) -> list[Line]:
    """One line per right of the catalogue, in its order."""
    return [_line(right, look, process) for right in rights().values()]


def _line(right: Right, look: Look, process: Process) -> Line:
    try:
        missing = CHECKS[right.id](look, process)
    except Unavailable as error:
        return Line(AREA, right.feature, "absent", str(error))
    except OSError as error:
        missing = str(error)
    if not missing:
        return Line(AREA, right.feature, "ok", right.right)
    todo = f"Needs {right.right}. Pod: {right.pod}. Machine: {right.machine}."
    return Line(AREA, right.feature, "unknown", f"blind: {right.blind} ({missing})", todo)


def _gpus(look: Look, process: Process) -> Missing:
    if look.value("gpudiag_gpus"):
        return ""
    return "" if os.access(process.dev / "nvidiactl", os.R_OK | os.W_OK) else "no /dev/nvidiactl"


def _kernel_log(_: Look, process: Process) -> Missing:
    os.close(os.open(process.dev / "kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    return ""


def _host_pids(_: Look, process: Process) -> Missing:
    own = process.namespace("pid")
    return "" if own == HOST_PIDS else "this process has process ids of its own"


def _other_processes(_: Look, process: Process) -> Missing:
    return "" if process.has_capability(CAP_SYS_PTRACE) else "not among the effective capabilities"


def _host_groups(_: Look, process: Process) -> Missing:
    own = process.namespace("cgroup")
    return "" if own == HOST_GROUPS else "this process has a view of its own"


def _host_network(look: Look, _: Process) -> Missing:
    status = look.statuses.get("network")
    return "" if status and status.available else "no network card is seen here"


def _state(_: Look, process: Process) -> Missing:
    return _not_writable(state_folder(process.environ, process.uid))


def _socket(_: Look, process: Process) -> Missing:
    return _not_writable(process.socket_folder())


def _container_logs(_: Look, process: Process) -> Missing:
    return container_logs.missing(process.logs)


def _signals(_: Look, process: Process) -> Missing:
    able = process.has_capability(CAP_KILL)
    return "" if able else f"only processes of user {process.uid} can be ended"


def _cluster(_: Look, process: Process) -> Missing:
    if not process.environ.get("KUBERNETES_SERVICE_HOST"):
        raise Unavailable("this process is in no pod")
    named = account(process.environ, process.account)
    return "" if named else f"no token in {process.account}"


def _not_writable(folder: Path) -> Missing:
    # The agent makes what is missing: the nearest folder that exists decides.
    there = next(path for path in (folder, *folder.parents) if path.exists())
    usable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    return "" if usable else f"no right to write in {there}"


CHECKS: dict[str, Callable[[Look, Process], Missing]] = {
    "gpus": _gpus,
    "kernel-log": _kernel_log,
    "host-pids": _host_pids,
    "other-processes": _other_processes,
    "host-groups": _host_groups,
    "host-network": _host_network,
    "state": _state,
    "socket": _socket,
    "container-logs": _container_logs,
    "signals": _signals,
    "cluster": _cluster,
}
"""How each right of the catalogue is looked for; `OSError` tells that it is missing, and
`Unavailable` that it means nothing here."""
