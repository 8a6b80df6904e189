"""What tells of a process that dies soon after its start, and the words it leaves behind."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpudiag.agent.rules._serving import holds
from gpudiag.agent.window import Window
from gpudiag.probes import Event

DRIVER = re.compile(
    r"driver version is insufficient for CUDA runtime|NVIDIA driver on your system is too old|drive"
    r"r/library version mismatch|forward compatibility was attempted|(?:requires|needs).{0,40}"
    r"(?:newer|driver).{0,40}driver|cudaErrorInsufficientDriver|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"
    r"|no kernel image is available|PTX was compiled with an unsupported toolchain"
    r"|nvidia-container-cli: requirement error|unsatisfied condition: (?:cuda|driver)|error 803"
    r"|system has unsupported display driver / cuda driver combination",
    re.IGNORECASE,
)
ENVIRONMENT = re.compile(
    r"ImportError|ModuleNotFoundError|undefined symbol|cannot open shared object|version `\w+_[\d."
    r"]+' not found|has no attribute|unexpected keyword argument|unrecognized arguments|VersionConf"
    r"lict|ContextualVersionConflict|is required but|but you have|incompatible (?:with|version)|Dis"
    r"tributionNotFound|PackageNotFoundError|KeyError: '[A-Z_]+'|No module named|GLIBC\w*_"
)
DRIFT = re.compile(
    r"(?:environment|manifest|package|image|digest|variable|version)\b.{0,120}"
    r"(?:differ|changed|drift|does not match|mismatch| -> |, was |recorded)",
    re.IGNORECASE,
)
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|OOMKilled|is less than desired GPU memory|No available memory for",
    re.IGNORECASE,
)
BACK_OFF = re.compile(
    r"BackOff|CrashLoopBackOff|Back-off restarting|Failed to start container|RunContainerError"
)
STARTED = re.compile(
    r"^(?:Normal )?(?:Started|Pulled|Created|ScalingReplicaSet|Scheduled)\b|^start "
)
_EXIT = re.compile(r"exit pid=(\d+).*?\bcode=(-?\d+)")
_START = re.compile(r"start pid=(\d+)")
_POD = re.compile(r"\bpod/(\S+)")
_RANK = re.compile(r"(?:train|rank[-_ ]?\d*|\d+)$")

# 0 and what a SIGTERM leaves are ends that somebody asked for; SIGKILL is memory's business.
ASKED_FOR = frozenset({0, -15, 143})
KILLED = frozenset({-9, 137})


@dataclass(slots=True)
class Crashes:
    """Events of the last minutes that tell of a start that did not come to work."""

    exits: list[Event] = field(default_factory=list)
    unknown: list[Event] = field(default_factory=list)
    killed: list[Event] = field(default_factory=list)
    back_offs: list[Event] = field(default_factory=list)
    starts: list[Event] = field(default_factory=list)
    driver: list[Event] = field(default_factory=list)
    environment: list[Event] = field(default_factory=list)
    drift: list[Event] = field(default_factory=list)
    memory: list[Event] = field(default_factory=list)

    @property
    def looped(self) -> bool:
        """Whether it died more than once, or soon after a start."""
        return len(self.back_offs) > 1 or len(self.exits) > 1

    @property
    def name(self) -> str:
        """What the log or the pod is called that tells of it."""
        for event in (*self.driver, *self.environment, *self.exits, *self.back_offs):
            _, _, log = event.source.partition(":")
            if event.fields.get("server"):
                return event.fields["server"]
            if log and not _RANK.match(log):
                return log
            if pod := _POD.search(event.line):
                return pod[1].rstrip(".,:")
        return ""


def crashes(window: Window, seconds: float, early: float) -> Crashes:
    """What the last `seconds` tell; an exit counts within `early` seconds of its start."""
    found = Crashes()
    begun: dict[str, float] = {}
    for event in window.events(seconds):
        kind = event.source.partition(":")[0]
        if kind == "process":
            _process(found, event, begun, early)
        elif kind == "kubernetes":
            _kubernetes(found, event)
        elif kind in ("log", "agent", "serving"):
            _words(found, event, kind)
    if found.driver or found.environment or found.drift:
        # Of these starts nothing was recorded, but such words are a start's.
        found.exits += found.unknown
    return found


def _process(found: Crashes, event: Event, begun: dict[str, float], early: float) -> None:
    if start := _START.search(event.line):
        begun[start[1]] = event.time
        found.starts.append(event)
    elif (end := _EXIT.search(event.line)) and int(end[2]) not in ASKED_FOR:
        started = begun.get(end[1])
        if started is None and found.starts:
            started = found.starts[-1].time
        if int(end[2]) in KILLED:
            found.killed.append(event)
        elif started is None:
            found.unknown.append(event)
        elif event.time - started <= early:
            found.exits.append(event)


def _kubernetes(found: Crashes, event: Event) -> None:
    if BACK_OFF.search(event.line):
        found.back_offs.append(event)
    elif STARTED.search(event.line):
        found.starts.append(event)
    _words(found, event, "kubernetes")


def _words(found: Crashes, event: Event, kind: str) -> None:
    if holds(OUT_OF_MEMORY, event.line):
        found.memory.append(event)
    elif holds(DRIVER, event.line):
        found.driver.append(event)
    elif kind == "agent" and holds(DRIFT, event.line):
        found.drift.append(event)
    elif holds(ENVIRONMENT, event.line):
        found.environment.append(event)
