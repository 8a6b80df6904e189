"""`gpudiag budget`: what a model needs on each GPU under a layout, and what would make it fit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from gpudiag.agent import files, units
from gpudiag.agent.analysis.budget.items import Item
from gpudiag.agent.analysis.budget.layout import Layout, Optimizer, Precision, Recompute
from gpudiag.agent.analysis.budget.model import Shape, read
from gpudiag.agent.analysis.budget.verdict import Verdict, judge
from gpudiag.probes.errors import UsageError

_COUNT = click.IntRange(1)
GIB = 2.0**30


@click.command()
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option("--parameters", type=float, help="Their number (70e9), where no CONFIG is at hand.")
@click.option("--gpu-memory", default="80GiB", show_default=True, help="Of one GPU.")
@click.option("--measured", help="What one GPU was seen to hold (71GiB), to stand beside it.")
@click.option("--serve", "serving", is_flag=True, help="Serving; else training.")
@click.option("--dp", type=_COUNT, default=1, help="Data-parallel degree.")
@click.option("--tp", type=_COUNT, default=1, help="Tensor-parallel degree.")
@click.option("--pp", type=_COUNT, default=1, help="Pipeline stages.")
@click.option("--ep", type=_COUNT, default=1, help="Expert-parallel degree.")
@click.option("--zero", type=click.IntRange(0, 3), default=0, help="ZeRO stage; FSDP is 3.")
@click.option("--fsdp", is_flag=True, help="Fully sharded, as --zero 3.")
@click.option("--precision", type=click.Choice(get_args(Precision)), default="bf16")
@click.option("--optimizer", type=click.Choice(get_args(Optimizer)), default="adamw")
@click.option("--micro-batch", type=_COUNT, default=1, help="Sequences at a time on one GPU.")
@click.option("--sequence", type=_COUNT, default=2048, help="Tokens; serving: of one pass.")
@click.option("--recompute", type=click.Choice(get_args(Recompute)), default="none")
@click.option("--kv-length", type=_COUNT, default=4096, help="Tokens of a request, serving.")
@click.option("--concurrency", type=_COUNT, default=16, help="Requests at a time, serving.")
@click.option("--cache-precision", type=click.Choice(get_args(Precision)), default="bf16")
@click.option("--json", "as_json", is_flag=True, help="One object, bytes.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    config: Path | None,
    parameters: float | None,
    gpu_memory: str,
    measured: str | None,
    as_json: bool,
    fsdp: bool,
    **layout: Any,
) -> None:
    """Say what the model of CONFIG (a Hugging Face config.json) needs on one GPU.

    Exit codes: 0 it fits, 1 it does not, 3 cannot tell. Example:

    gpudiag budget config.json --dp 8 --zero 3 --micro-batch 4 --sequence 4096 --recompute full
    """
    layout["zero"] = 3 if fsdp else layout["zero"]
    said = judge(_shape(config, parameters), Layout(**layout), units.size(gpu_memory))
    seen = units.size(measured) if measured else None
    if as_json:
        click.echo(json.dumps(_plain(said, seen)))
    else:
        _show(said, seen)
    ctx.exit({True: 0, False: 1, None: 3}[said.fits])


def _shape(config: Path | None, parameters: float | None) -> Shape:
    if config is not None:
        try:
            told = msgspec.json.decode(files.text(config, "the configuration"), type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise UsageError(f"{config} is no config.json: {error}") from error
        return read(told)
    if parameters is None or not 0.0 < parameters < math.inf:
        raise UsageError("name the model's config.json, or give --parameters 70e9")
    return Shape(given=parameters)


def _show(said: Verdict, measured: int | None) -> None:
    for item in said.items:
        if isinstance(item, Item):
            lives = f"{item.lives}; released {item.released}"
            click.echo(f"{item.name:22} {item.bytes / GIB:9.2f} GiB  {lives}")
        else:
            click.echo(f"{item.name:22}  cannot tell  needs {item.missing}")
    click.echo(
        f"{'all':22} {said.total / GIB:9.2f} GiB  of {said.usable / GIB:.2f} that are usable"
    )
    if measured is not None:
        apart = measured / said.total - 1.0
        click.echo(f"{'measured':22} {measured / GIB:9.2f} GiB  {apart:+.0%} beside the estimate")
    click.echo(_verdict(said))
    for change in said.changes:
        ends = {True: "fits", False: "not yet", None: "what is known fits"}[change.fits]
        click.echo(f"  then {change.words}: {change.total / GIB:.2f} GiB, {ends}")
    if said.fits is False and not (said.changes and said.changes[-1].fits is not False):
        click.echo("No change known here makes it fit: a smaller model or larger GPUs are left.")


def _verdict(said: Verdict) -> str:
    if said.fits is None:
        return "Cannot tell: what is known fits, and an item is not known."
    if said.fits:
        return f"It fits, with {said.spare / GIB:.2f} GiB to spare."
    return f"It does not fit: {-said.spare / GIB:.2f} GiB lack on each GPU."


def _plain(said: Verdict, measured: int | None) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(said)
    return {**plain, "spare": said.spare, "measured": measured}
