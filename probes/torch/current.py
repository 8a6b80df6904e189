"""The one session of this process: made by the first attach, ended by the last detach."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from gpudiag.probes.torch.channel import OPENING
from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.hooks import Hooks
from gpudiag.probes.torch.options import Options
from gpudiag.probes.torch.session import Session


class Current:
    """Counts how often the process is attached; `session` is None where it is not."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self._hooks: Hooks | None = None
        self._depth = 0
        self._watching = False

    def attach(self, torch: Any, options: Options, *, eager: bool) -> Session | None:
        """The session, made if need be; `eager` says hello before the first step."""
        if os.environ.get("GPUDIAG_DISABLE", "") not in {"", "0"}:
            return None
        self._depth += 1
        if self.session is None:
            self.session = Session(torch, options)
            self._hooks = Hooks(self.session)
            self._hooks.install()
            self._watch()
            if eager and not launched_by_multiprocessing():
                self.session.begin()
        return self.session

    def detach(self) -> None:
        """Undo one attach; the last lets go of torch and says goodbye."""
        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self.session is not None and self._hooks is not None:
            self._hooks.remove()
            self.session.oom.close()
            self.session.close("clean")
            self.session = self._hooks = None

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            atexit.register(guarded(self._exit))
            os.register_at_fork(
                before=OPENING.acquire,
                after_in_parent=OPENING.release,
                after_in_child=OPENING.release,
            )
            os.register_at_fork(after_in_child=guarded(self._forked))

    def _exit(self) -> None:
        if self.session is not None:
            self.session.close(*reason(sys.exc_info()[1]))

    def _forked(self) -> None:
        if self.session is not None:
            self.session.forked()
            # A forked child ends by os._exit, which runs these finalizers and no atexit; they are
            # cleared when it starts, so the session asks again when it begins to speak.
            self.session.on_begin = self._finalize

    def _finalize(self) -> None:
        # It leaves a mark in sys.modules, and only a child of its own needs it.
        from multiprocessing.util import Finalize

        Finalize(None, guarded(self._exit), exitpriority=1)


def reason(error: BaseException | None) -> tuple[str, str]:
    """Goodbye for the exception in flight: none at all is clean, and `SystemExit` of 0 or of 75,
    with which a job leaves to be started again.
    """
    if isinstance(error, SystemExit):
        if error.code in (None, 0, os.EX_TEMPFAIL):
            return "clean", ""
        error = error.__context__ or error
    if error is None:
        return "clean", ""
    return "exception", f"{type(error).__name__}: {error}"


def launched_by_multiprocessing() -> bool:
    """Whether this may be a loader's worker: those import the training script and never train."""
    return any("multiprocessing" in argument for argument in sys.orig_argv)


CURRENT = Current()
