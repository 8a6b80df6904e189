"""A command as a child: signals go on to it, and how it ended is told to the agent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

FORWARDED = frozenset(
    {
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGCONT,
    }
)

TELL_SECONDS = 1.0

# What the kernel sends by itself, such as Ctrl-C, reaches the whole group (SI_KERNEL, siginfo.h).
_FROM_KERNEL = 0x80

NOT_FOUND, NOT_EXECUTABLE = 127, 126

LOOK_SECONDS = 0.25
"""Shorter than the agent waits for a parent's word about a death."""


def run(command: Sequence[str], environ: Mapping[str, str]) -> tuple[int, int]:
    """Run the command to its end; gives its pid and its code, negative for a signal.

    Raises OSError where it cannot be started.
    """
    waited = FORWARDED | {signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        child = subprocess.Popen(
            command,
            env=dict(environ),
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509
        )
        while child.poll() is None:
            # Another thread of this process may have been given the SIGCHLD: it is looked again.
            info = signal.sigtimedwait(waited, LOOK_SECONDS)
            if info is None:
                continue
            if info.si_signo != signal.SIGCHLD and info.si_code != _FROM_KERNEL:
                child.send_signal(info.si_signo)
        return child.pid, child.returncode
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def exit_code(code: int) -> int:
    """What a shell would make of it: 128 + N for signal N."""
    return code if code >= 0 else 128 - code


def tell(path: Path, pid: int, code: int, *, job: str, name: str) -> None:
    """Tell the agent how the child ended; where none listens there is nobody to tell."""
    packet = {"kind": "exit", "time": time.time(), "pid": pid, "code": code}
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
            agent.settimeout(TELL_SECONDS)
            agent.connect(str(path))
            agent.send(json.dumps({**packet, "job": job, "name": name}).encode())
    except OSError:
        return


def environment(environ: Mapping[str, str], command: Sequence[str], path: Path) -> dict[str, str]:
    """The command's environment: the hooks' start-up folder, the socket and the job's name."""
    folder = str(Path(__file__).parent)
    paths = [folder, *filter(None, [environ.get("PYTHONPATH")])]
    return {
        "GPUDIAG_JOB": environ.get("SLURM_JOB_NAME") or job_name(command),
        **environ,
        "GPUDIAG_SOCKET": str(path),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def job_name(command: Sequence[str]) -> str:
    """The script's name where the command names one, else the program's."""
    return next(
        (Path(word).stem for word in command if word.endswith(".py")), Path(command[0]).name
    )
