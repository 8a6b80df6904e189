"""Loss and gradient norm, given by the user or found where torch's own functions pass them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import isfinite
from typing import Any

from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.meter import Value

# Reading a tensor on a device waits for the device: those are kept and read once a second.
KEPT = 64


class Scalars:
    """The last value of each scalar, and how many were not finite.

    A loss is found in `Tensor.backward` (in `GradScaler.scale` where that is used: what reaches
    backward is scaled) until the user gives one. With gradient accumulation a found loss is what
    the loop passes to backward, often divided by the number of micro-batches.
    """

    def __init__(self) -> None:
        self.backwards = 0
        self._last: dict[str, float] = {}
        self._kept: list[tuple[str, Any]] = []
        self._nonfinite = 0
        self._given: set[str] = set()
        self._scaled = False
        self._known = False

    def give(self, name: str, value: Any) -> None:
        """The user's own word on `name` (loss, grad_norm): a number or a tensor of one."""
        self._given.add(name)
        self._observe(name, value)

    def backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`Tensor.backward`, which shows the loss."""
        seen = guarded(self._seen)

        @functools.wraps(original)
        def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            # Only a scalar may go backward without a gradient given.
            seen(tensor, not args and not kwargs)
            return original(tensor, *args, **kwargs)

        return backward

    def scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`GradScaler.scale`, which shows the loss before it is scaled."""
        seen = guarded(self._before_scaling)

        @functools.wraps(original)
        def scale(scaler: Any, outputs: Any) -> Any:
            seen(outputs)
            return original(scaler, outputs)

        return scale

    def norm(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """`clip_grad_norm_`, which gives the gradient norm."""
        seen = guarded(self._found)

        @functools.wraps(original)
        def clip(*args: Any, **kwargs: Any) -> Any:
            norm = original(*args, **kwargs)
            seen("grad_norm", norm)
            return norm

        return clip

    def take(self, steps: int) -> list[Value]:  # noqa: ARG002 - the last value, not a mean
        """The last loss and norm; a count of what was not finite once anything was seen."""
        kept, self._kept = self._kept, []
        for name, tensor in kept:
            self._note(name, tensor.item())
        last, self._last = self._last, {}
        values: list[Value] = [
            (f"gpudiag_train_{name}", {}, value) for name, value in last.items() if isfinite(value)
        ]
        if self._known:
            values.append(("gpudiag_train_nonfinite_total", {}, float(self._nonfinite)))
        self.backwards = 0
        return values

    def _seen(self, tensor: Any, scalar: bool) -> None:
        self.backwards += 1
        if self._scaled or not scalar:
            self._scaled = False
        elif not self._given and tensor.is_cpu:
            # Every step comes here: written out, since a call costs as much as the rest.
            self._last["loss"] = loss = tensor.item()
            self._known = True
            if not isfinite(loss):
                self._nonfinite += 1
        else:
            self._found("loss", tensor)

    def _before_scaling(self, outputs: Any) -> None:
        if hasattr(outputs, "numel"):
            self._scaled = True
            self._found("loss", outputs)

    def _found(self, name: str, value: Any) -> None:
        if name not in self._given:
            self._observe(name, value)

    def _observe(self, name: str, value: Any) -> None:
        device = getattr(value, "device", None)
        if device is None or device.type == "cpu":
            if device is None or value.numel() == 1:
                self._note(name, float(value if device is None else value.item()))
        elif value.numel() == 1 and len(self._kept) < KEPT:
            self._kept.append((name, value.detach()))

    def _note(self, name: str, value: float) -> None:
        self._known = True
        self._last[name] = value
        if not isfinite(value):
            self._nonfinite += 1
