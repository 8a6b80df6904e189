"""Where a process lives: container, pod and cgroup, read once; and whether it still lives."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpudiag.probes import Labels, labels

_CONTAINER = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})")
_SHORT = 12

# The flag that the kernel sets as soon as a process has begun to exit (PF_EXITING, sched.h).
_EXITING = 0x4


@dataclass(frozen=True, slots=True)
class Place:
    """`pod` and `container` as labels, absent off Kubernetes; what is needed to watch its end."""

    labels: Labels = ()
    parent: int | None = None
    started: int | None = None
    oom_counter: Path | None = None
    oom_kills: int | None = None


def parse_cgroup(text: str) -> tuple[str, str]:
    """Pod uid and short container id in /proc/PID/cgroup, version 1 or 2; "" if none."""
    pod, container = _POD.search(text), _CONTAINER.search(text)
    return (
        pod[1].replace("_", "-") if pod else "",
        container[1][:_SHORT] if container else "",
    )


def parse_environ(data: bytes) -> dict[str, str]:
    """/proc/PID/environ by name."""
    pairs = (item.partition(b"=") for item in data.split(b"\0") if b"=" in item)
    return {name.decode("utf-8", "replace"): v.decode("utf-8", "replace") for name, _, v in pairs}


class Stat(NamedTuple):
    """What /proc/PID/stat says: at its end or not, parent, start in ticks since boot."""

    dying: bool
    parent: int
    started: int


def parse_stat(text: str) -> Stat:
    """The fields of one /proc/PID/stat; a command's name may hold blanks and brackets."""
    words = text.rpartition(")")[2].split()
    dying = words[0] in "ZX" or bool(int(words[6]) & _EXITING)
    return Stat(dying, int(words[1]), int(words[19]))


def place(pid: int, proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> Place:
    """What is readable of the process; a pid of 0 stands for one of another pid namespace."""
    if not pid:
        return Place()
    cgroup = _read(proc / f"{pid}/cgroup")
    uid, container = parse_cgroup(cgroup)
    counter = _oom_counter(cgroup, cgroups)
    found = {"pod": _pod_name(proc / f"{pid}/environ") or uid, "container": container}
    text = _read(proc / f"{pid}/stat")
    stat = parse_stat(text) if text else None
    return Place(
        labels=labels(**{name: value for name, value in found.items() if value}),
        parent=stat.parent if stat else None,
        started=stat.started if stat else None,
        oom_counter=counter,
        oom_kills=oom_kills(counter),
    )


def ended(pid: int, started: int | None, proc: Path = Path("/proc")) -> bool:
    """Whether that process has ended or is about to; its number may be another's by now."""
    text = _read(proc / f"{pid}/stat")
    if not text:
        return True
    stat = parse_stat(text)
    return stat.dying or (started is not None and stat.started != started)


def oom_kills(counter: Path | None) -> int | None:
    """How often the kernel has killed for memory in that cgroup; None where it does not say."""
    if counter is None:
        return None
    found = re.search(r"^oom_kill (\d+)$", _read(counter), re.MULTILINE)
    return int(found[1]) if found else None


def _oom_counter(cgroup: str, cgroups: Path) -> Path | None:
    for line in cgroup.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            return cgroups / path.lstrip("/") / "memory.events"
        if controllers == "memory":
            return cgroups / "memory" / path.lstrip("/") / "memory.oom_control"
    return None


def _pod_name(environ: Path) -> str:
    try:
        named = parse_environ(environ.read_bytes())
    except OSError:
        return ""
    if "KUBERNETES_SERVICE_HOST" not in named:
        return ""
    return named.get("POD_NAME") or named.get("HOSTNAME", "")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
