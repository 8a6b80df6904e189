"""Where the hooks take hold of torch and Python, and how they let go."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from gpudiag.probes.torch.features import FUNCTIONAL, Place
from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.imports import Waiting, when_imported
from gpudiag.probes.torch.patches import Patches
from gpudiag.probes.torch.session import Session

CPU_OUT_OF_MEMORY = "DefaultCPUAllocator: can't allocate memory"


class Hooks:
    """Installed once a session. `ending` is told of the exception that ends the process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._patches = Patches()
        self._handle: Any = None
        self._waiting: list[Waiting | None] = []

    def install(self) -> None:
        """Take hold; each of them alone may be missing without harm to the rest."""
        for part in (
            self._steps,
            self._loader,
            self._waits,
            self._scalars,
            self._saves,
            self._ends,
        ):
            guarded(part)()
        self._session.gc.listen()

    def remove(self) -> None:
        """Let go of everything."""
        self._patches.undo()
        self._session.gc.close()
        if self._handle is not None:
            self._handle.remove()
        for waiting in self._waiting:
            if waiting is not None:
                waiting.stop()

    def _steps(self) -> None:
        # `torch.optim` deletes its attribute `optimizer`; the module is there.
        optimizer = importlib.import_module("torch.optim.optimizer")
        hook = guarded(self._session.optimizers.stepped)
        self._handle = optimizer.register_optimizer_step_post_hook(hook)

    def _loader(self) -> None:
        session = self._session
        place, loader = session.features.loader_iterator, session.loader
        if session.features.cuda_stamp:
            self._wrap(
                place, lambda _: lambda original: loader.timed_on_gpu(original, session.cuda)
            )
        else:
            self._wrap(place, lambda _: loader.timed)

    def _waits(self) -> None:
        features, waits, cuda = self._session.features, self._session.waits, self._session.cuda
        self._wrap(features.collectives, waits.issuing)
        self._wrap(features.work_wait, lambda _: waits.waiting)
        if features.cuda_stamp:
            self._wrap(features.stream_wait, lambda _: cuda.stream_wait)
        self._waiting.append(when_imported(FUNCTIONAL, guarded(self._functional)))

    def _functional(self, module: Any) -> None:
        place = self._session.features.functional_wait
        place.look(module)
        self._wrap(place, lambda _: self._session.waits.functional)

    def _wrap(self, place: Place, make: Callable[[str], Callable[[Any], Any]]) -> None:
        for name in place.names:
            self._patches.replace(place.owner, name, make(name))

    def _scalars(self) -> None:
        torch, scalars = self._session.torch, self._session.scalars
        self._patches.replace(torch.Tensor, "backward", scalars.backward)
        self._patches.replace(torch.amp.GradScaler, "scale", scalars.scale)
        self._patches.replace(torch.autocast, "__enter__", self._session.model.autocast)
        for owner in (torch.nn.utils, torch.nn.utils.clip_grad):
            self._patches.replace(owner, "clip_grad_norm_", scalars.norm)

    def _saves(self) -> None:
        torch, checkpoints = self._session.torch, self._session.checkpoints
        self._patches.replace(torch, "save", checkpoints.saving)
        self._patches.replace(torch, "load", checkpoints.loading)
        saves = when_imported("torch.distributed.checkpoint", guarded(self._distributed))
        self._waiting.append(saves)

    def _distributed(self, module: Any) -> None:
        for name in ("save", "async_save"):
            self._patches.replace(module, name, self._session.checkpoints.saving)
        self._patches.replace(module, "load", self._session.checkpoints.loading)

    def _ends(self) -> None:
        self._patches.replace(sys, "excepthook", self._excepthook)

    def _excepthook(self, original: Callable[..., Any]) -> Callable[..., Any]:
        told = guarded(self._told)

        @functools.wraps(original)
        def hook(kind: type[BaseException], error: BaseException, trace: Any) -> Any:
            told(error)
            return original(kind, error, trace)

        return hook

    def _told(self, error: BaseException) -> None:
        line = f"{type(error).__name__}: {error}"
        memory = getattr(self._session.torch, "OutOfMemoryError", ())
        if isinstance(error, memory) or CPU_OUT_OF_MEMORY in line:
            self._session.event("oom", line)
        self._session.close("exception", line)
