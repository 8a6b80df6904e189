"""What each command of the agent does in this process."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpudiag.probes.torch import evidence
from gpudiag.probes.torch.census import BUDGET, Census, headline
from gpudiag.probes.torch.commands import Answer, Handler

if TYPE_CHECKING:
    from gpudiag.probes.torch.session import Session


class Requests:
    """The handlers; what only the user's code can do is done by the callbacks of `gd.on`."""

    def __init__(self, session: Session) -> None:
        self.callbacks: dict[str, Callable[..., Any]] = {}
        self._session = session
        self._counting = Census(session.torch)

    def at_once(self) -> dict[str, Handler]:
        """Answered by the helper thread."""
        return {"ping": self._ping, "dump_stacks": self._dump_stacks}

    def at_boundary(self) -> dict[str, Handler]:
        """Carried out by the training thread at the end of a step."""
        return {
            "snapshot": self._snapshot,
            "record_steps": self._record_steps,
            "census": self._census,
            "gc": self._gc,
            "empty_cache": self._empty_cache,
            "set_memory_fraction": self._set_memory_fraction,
            "micro_batch": self._micro_batch,
            "checkpoint": self._checkpoint,
            "checkpoint_and_exit": self._checkpoint_and_exit,
        }

    def leave(self) -> None:
        """End this process as the agent asked: the user's `exit` callback, else `SystemExit`.

        Not with 0: to torchrun, Kubernetes and Slurm that is a job that is done, and none of them
        would start it again.
        """
        self._session.exiting = False
        if "exit" in self.callbacks:
            self.callbacks["exit"]()
        else:
            raise SystemExit(os.EX_TEMPFAIL)

    def _ping(self, _args: dict[str, Any]) -> Answer:
        return True, "", {"step": self._session.steps.count}

    def _dump_stacks(self, _args: dict[str, Any]) -> Answer:
        self._session.event("hang_dump", evidence.stacks())
        return True, "", {"step": self._session.steps.count}

    def _snapshot(self, _args: dict[str, Any]) -> Answer:
        path = self._session.captures.snapshot("asked")
        self._session.event("snapshot", str(path))
        return True, "", {"path": str(path)}

    def _record_steps(self, args: dict[str, Any]) -> Answer:
        self._session.captures.record(int(args.get("steps", 2)))
        return True, "the snapshot comes as an event", {}

    def _census(self, args: dict[str, Any]) -> Answer:
        budget = float(args.get("seconds", BUDGET))
        found = self._counting.take(self._session.model.tensors(), budget)
        self._session.event("census", headline(found), **found)
        return True, "", found

    def _gc(self, _args: dict[str, Any]) -> Answer:
        start = time.perf_counter()
        found = gc.collect()
        return True, "", {"unreachable": found, "seconds": time.perf_counter() - start}

    def _empty_cache(self, _args: dict[str, Any]) -> Answer:
        if not self._session.torch.cuda.is_initialized():
            return False, "this process has no CUDA allocator", {}
        self._session.torch.cuda.empty_cache()
        return True, "", {}

    def _set_memory_fraction(self, args: dict[str, Any]) -> Answer:
        if not self._session.torch.cuda.is_initialized():
            return False, "this process has no CUDA allocator", {}
        self._session.torch.cuda.set_per_process_memory_fraction(float(args["fraction"]))
        return True, "", {}

    def _micro_batch(self, args: dict[str, Any]) -> Answer:
        factor = float(args["factor"])
        if not 0.0 < factor < math.inf or factor == 1.0:
            return False, f"a micro-batch cannot be divided by {factor:g}", {}
        return self._call("reduce_micro_batch", factor=factor)

    def _checkpoint(self, _args: dict[str, Any]) -> Answer:
        return self._call("checkpoint")

    def _checkpoint_and_exit(self, _args: dict[str, Any]) -> Answer:
        ok, detail, fields = self._call("checkpoint")
        self._session.exiting = ok
        return ok, detail, fields

    def _call(self, name: str, **arguments: Any) -> Answer:
        function = self.callbacks.get(name)
        if function is None:
            return False, f'no callback: register one with gd.on("{name}", function)', {}
        answer = function(**arguments)
        return answer is not False, "" if answer is None else str(answer)[:500], {}
