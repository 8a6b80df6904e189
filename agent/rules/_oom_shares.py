"""What a rank's memory was made of when it ran out, and what had been asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpudiag.agent.analysis.oom_fields import Figures
from gpudiag.agent.analysis.oom_words import Meaning
from gpudiag.agent.rules._jobs import Job
from gpudiag.agent.window import Window

MODEL = "gpudiag_model_bytes"
BUDGET = "gpudiag_budget_bytes"
CONFIG = "gpudiag_train_config_info"
LENGTH = "gpudiag_train_sequence_length"
LIMIT = "gpudiag_train_sequence_length_limit"
BATCH = "gpudiag_train_batch_size"
ALLOCATED = "gpudiag_torch_allocated_bytes"
PEAK = "gpudiag_torch_allocated_peak_bytes"
RESERVED = "gpudiag_torch_reserved_bytes"
LARGEST = "gpudiag_torch_largest_free_block_bytes"
OUTSIDE = "gpudiag_torch_non_torch_bytes"
CAPACITY = "gpudiag_gpu_memory_total_bytes"
HELD = "gpudiag_gpu_process_memory_bytes"


@dataclass(frozen=True, slots=True)
class Shares:
    """Bytes of one rank; None or absent where nobody told.

    `model` is by (kind, scope), `wide` the float32 bytes of parameters, `budget` by kind; `others`
    what processes of other pids hold on its GPU; `degrees` are of the layout.
    """

    job: Job
    rank: str
    figures: Figures
    meanings: tuple[Meaning, ...]
    model: dict[tuple[str, str], float] = field(default_factory=dict)
    wide: float = 0.0
    budget: dict[str, float] = field(default_factory=dict)
    config: dict[str, str] = field(default_factory=dict)
    degrees: dict[str, int] = field(default_factory=dict)
    allocated: float | None = None
    reserved: float | None = None
    largest: float | None = None
    outside: float | None = None
    capacity: float | None = None
    others: float = 0.0
    length: float | None = None
    limit: float | None = None
    batch: float | None = None

    def local(self, kind: str) -> float:
        """Bytes of a kind on this rank, 0.0 where not known."""
        return self.model.get((kind, "local"), self.model.get((kind, ""), 0.0))

    @property
    def activations(self) -> float | None:
        """What is allocated beyond the model, else what the budget says; None where neither is."""
        fixed = sum(self.local(kind) for kind in ("parameter", "gradient", "optimizer"))
        if self.allocated is not None and fixed:
            return max(self.allocated - fixed, 0.0)
        return self.budget.get("activation")


def shares(
    window: Window, job: Job, rank: str, figures: Figures, said: tuple[Meaning, ...]
) -> Shares:
    """All that is known of the rank's memory now."""
    of = {"job": job.name, **({"rank": rank} if rank else {})}
    model: dict[tuple[str, str], float] = {}
    wide = 0.0
    for point in window.latest(MODEL, **of):
        if point.labels.get("rank", rank) != (rank or point.labels.get("rank", rank)):
            continue
        key = point.labels.get("kind", ""), point.labels.get("scope", "")
        model[key] = model.get(key, 0.0) + point.value
        local = key[0] == "parameter" and key[1] != "global"
        wide += point.value if local and point.labels.get("dtype") in ("float32", "fp32") else 0.0
    about = job.ranks.get(rank) or next(iter(job.ranks.values()), {})
    layout = re.findall(r"(\w+)=(\d+)", about.get("layout", ""))
    config = next((p.labels for p in window.latest(CONFIG, **of)), {})
    uuid = about.get("uuid", "")
    pids = {ranks.get("pid") for ranks in job.ranks.values()}
    peak = window.value(PEAK, **of) or window.value(ALLOCATED, **of)
    return Shares(
        job,
        rank,
        figures,
        said,
        model,
        wide,
        {p.labels.get("kind", ""): p.value for p in window.latest(BUDGET, **of)},
        config,
        {name: int(value) for name, value in layout},
        allocated=float(figures.allocated) if figures.allocated else peak,
        reserved=float(figures.reserved) if figures.reserved else window.value(RESERVED, **of),
        largest=window.value(LARGEST, **of),
        outside=window.value(OUTSIDE, **of),
        capacity=float(figures.total) if figures.total else window.value(CAPACITY, uuid=uuid),
        others=sum(
            p.value
            for p in (window.latest(HELD, uuid=uuid) if uuid else [])
            if p.labels.get("pid") not in pids
        ),
        length=window.value(LENGTH, **of),
        limit=window.value(LIMIT, **of),
        batch=window.value(BATCH, **of),
    )
