"""How a model is spread over GPUs, and what it is run with."""

from __future__ import annotations

from typing import Literal

import msgspec

Precision = Literal["fp32", "bf16", "fp16", "fp8"]
Optimizer = Literal["adamw", "adamw-8bit", "adafactor", "sgd"]
Recompute = Literal["none", "selective", "full"]

BYTES: dict[Precision, float] = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Degrees of parallelism, and what memory depends on besides.

    `zero` is the stage of ZeRO; FSDP is 3. `sequence` tokens of `micro_batch` sequences go through
    at a time; serving keeps the cache of `concurrency` requests of `kv_length` tokens.
    """

    serving: bool = False
    dp: int = 1
    tp: int = 1
    pp: int = 1
    ep: int = 1
    zero: int = 0
    precision: Precision = "bf16"
    optimizer: Optimizer = "adamw"
    micro_batch: int = 1
    sequence: int = 2048
    recompute: Recompute = "none"
    kv_length: int = 4096
    concurrency: int = 16
    cache_precision: Precision = "bf16"

    @property
    def gpus(self) -> int:
        """All of them; experts are spread over the data-parallel ones."""
        return self.dp * self.tp * self.pp
