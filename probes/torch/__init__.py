"""The part of gpudiag inside a training process: `import gpudiag.probes.torch as gd; gd.attach()`.

It needs the standard library and torch alone, never raises into training, never waits for the
agent, and does nothing with `GPUDIAG_DISABLE=1`. Without any call in the script,
`gpudiag run -- python train.py` does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpudiag.probes.torch.current import CURRENT
from gpudiag.probes.torch.guard import guarded
from gpudiag.probes.torch.options import Options
from gpudiag.probes.torch.phases import Phase

__all__ = ["attach", "detach", "observe", "on", "phase", "step"]


@guarded
def attach(
    model: Any = None,
    optimizer: Any = None,
    loader: Any = None,
    *,
    job: str | None = None,
    layout: str | None = None,
    config: Mapping[str, str] | None = None,
    sequence_length: int | None = None,
    kernel_interval: float | None = None,
    folder: str | Path | None = None,
    socket: str | Path | None = None,
) -> None:
    """Watch this training process until `detach` or its end; all arguments may be left out.

    `optimizer` (one or a list) names those whose step counts, `loader` the DataLoader of training
    beside others. The options are described in `gpudiag.probes.torch.options`. Attaching twice is
    the same as once, and so is attaching where `gpudiag run` did.
    """
    import torch

    told = {"socket": Path(socket)} if socket else {}
    options = Options(
        job=job,
        layout=layout,
        config=config or {},
        sequence_length=sequence_length,
        kernel_interval=kernel_interval,
        folder=Path(folder) if folder else None,
        **told,
    )
    session = CURRENT.attach(torch, options, eager=True)
    if session is None:
        return
    if model is not None:
        session.model.name(model)
    if optimizer is not None:
        several = isinstance(optimizer, list | tuple)
        session.optimizers.name(tuple(optimizer) if several else (optimizer,))
    if loader is not None:
        session.loader.name(loader)


@guarded
def detach() -> None:
    """Undo one `attach`."""
    CURRENT.detach()


def phase(name: str) -> Phase:
    """A named part of the work: `with gd.phase("rollout"): ...`.

    Phases may nest. "data" counts as data wait and "checkpoint" as checkpoint time too, for loops
    without a DataLoader or with a way to save of their own.
    """
    session = CURRENT.session
    if session is None:
        return Phase(name, None)
    waits = name == "data" and session.cuda.active()
    return Phase(name, session.phases.ended, session.cuda if waits else None)


@guarded
def step(loss: Any = None, *, tokens: int | None = None, samples: int | None = None) -> None:
    """A training step ended, in loops that no optimizer's step shows; from then on only this
    marks steps. `tokens` and `samples` of the step take the place of those seen in batches.
    """
    session = CURRENT.session
    if session is None:
        return
    if loss is not None:
        session.scalars.give("loss", loss)
    if tokens is not None or samples is not None:
        session.loader.tell(samples, tokens)
    if not session.optimizers.manual:
        session.optimizers.manual = True
        # The optimizer's own hook has counted this step already.
        if session.steps.count:
            return
    session.steps.mark()


@guarded
def observe(*, loss: Any = None, grad_norm: Any = None) -> None:
    """Tell the loss or the gradient norm: a number or a tensor of one element."""
    session = CURRENT.session
    if session is not None:
        for name, value in (("loss", loss), ("grad_norm", grad_norm)):
            if value is not None:
                session.scalars.give(name, value)


@guarded
def on(name: str, function: Callable[..., Any]) -> None:
    """Have `function` called at a step boundary when the agent asks for what only the script can
    do; returning False tells that it was not done. By name:

    `reduce_micro_batch(factor)`: divide the micro-batch by `factor` and multiply the steps of
    accumulation by it, so that the global batch stays the same; 2.0 halves the micro-batch, and
    the inverse, 0.5, takes that back. What cannot be divided so returns False and changes nothing.
    `checkpoint()`: save all that `step` has done so far. The optimizer has stepped; what the script
    does after it in its loop, as stepping a schedule, has not happened yet.
    `exit()`: end this process after a checkpoint; without it the exit status is 75, upon which
    torchrun, a Job or Slurm start it again.
    """
    session = CURRENT.session
    if session is not None:
        session.requests.callbacks[name] = function
