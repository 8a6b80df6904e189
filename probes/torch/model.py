"""The model of this run: found or told, its inventory now and then, its DDP modules watched."""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable
from typing import Any

from gpudiag.probes.torch import find, inventory, setup_found
from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.meter import Value
from gpudiag.probes.torch.optimizers import Optimizers

EVERY = 60.0
# Thousands of parameters take milliseconds to add up; the training thread waits for it.
SHARE = 5000
WORDS = {
    "parameter": "the model's parameters",
    "gradient": "the model's gradients",
    "optimizer": "the optimizer's state",
}


class Model:
    """A meter of model bytes. Modules are held weakly: a deleted model is not kept alive."""

    def __init__(
        self, torch: Any, optimizers: Optimizers, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.config: dict[str, str] = {}
        self.degrees: dict[str, int] = {}
        self._torch = torch
        self._optimizers = optimizers
        self._clock = clock
        self._modules: list[weakref.ref[Any]] = []
        self._next = 0.0
        self._autocast: str | None = None

    def name(self, model: Any) -> None:
        """The model as the user gives it."""
        self._modules.append(weakref.ref(model))

    def autocast(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """`autocast.__enter__`, which shows the dtype that a loop computes in."""

        entered = guarded(self._entered)

        @functools.wraps(original)
        def enter(context: Any) -> Any:
            answer = original(context)
            entered(context)
            return answer

        return enter

    def modules(self) -> list[Any]:
        """The outermost trained modules that are alive."""
        return [module for ref in self._modules if (module := ref()) is not None]

    def distributed(self) -> list[Any]:
        """The DistributedDataParallel modules among them and inside them."""
        return [
            inner
            for module in self.modules()
            for inner in module.modules()
            if type(inner).__name__ == "DistributedDataParallel"
        ]

    def look(self) -> None:
        """Find the modules, and what they tell of the run; for the second step, once."""
        optimizers = self._optimizers.known()
        parameters = {
            id(p) for o in optimizers for group in o.param_groups for p in group["params"]
        }
        told = {id(module) for module in self.modules()}
        for module in find.trained(find.modules(self._torch), parameters):
            if id(module) not in told:
                self._modules.append(weakref.ref(module))
        self.config = setup_found.config(self.modules(), optimizers, self._autocast)
        self.degrees = setup_found.degrees(self.modules())

    def totals(self) -> inventory.Totals:
        """Bytes of the model now."""
        return inventory.inventory(self.modules(), self._optimizers.known())

    def tensors(self) -> dict[int, str]:
        """What each tensor of the model is, by `id`."""
        found = inventory.tensors(self.modules(), self._optimizers.known())
        return {id(tensor): WORDS[kind] for kind, tensor in found}

    def take(self, steps: int) -> list[Value]:
        """Model bytes, once a minute at most."""
        now = self._clock()
        # What is given before the first timed step is not sent.
        if now < self._next or steps <= 0:
            return []
        totals = self.totals()
        self._next = now + max(EVERY, (self._clock() - now) * SHARE)
        return inventory.values(totals)

    def _entered(self, context: Any) -> None:
        # Recomputation enters it also where it is off.
        if self._torch.is_autocast_enabled(context.device):
            self._autocast = str(context.fast_dtype).removeprefix("torch.")
