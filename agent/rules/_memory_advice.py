"""What to do about memory that grows, for each cause."""

from __future__ import annotations

from gpudiag.agent.rules.contract import UNDETERMINED, Suggestion

_CHECKPOINT = Suggestion("restart", "Before memory ends: write a checkpoint and restart from it.")

ADVICE: dict[str, tuple[Suggestion, ...]] = {
    "tensors-retained-across-steps": (
        Suggestion("observe", "Take two snapshots some steps apart and compare their call sites."),
        Suggestion("notify", "Tell the owner: keep `loss.item()` or `.detach()`, not the tensor."),
        _CHECKPOINT,
    ),
    "log-or-cache-buffers": (
        Suggestion("notify", "Tell the owner: move what is kept to the CPU, or bound its length."),
        _CHECKPOINT,
    ),
    "data-loading-leak": (
        Suggestion("notify", "Tell the owner: keep arrays, not Python lists, in the dataset."),
        Suggestion("degrade", "Fewer loader workers, `persistent_workers=False`; undo likewise."),
    ),
    "temporaries-not-freed-after-step": (
        Suggestion("degrade", "Run gc.collect() every few hundred steps; harmless, undo likewise."),
        Suggestion("notify", "Tell the owner to look for reference cycles: `warn_tensor_cycles`."),
    ),
    "fragmentation-growth": (
        Suggestion("degrade", "Empty the cache once at a step boundary; it refills by itself."),
        Suggestion("restart", "Restart with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."),
    ),
    "comm-buffers-not-reclaimed": (
        Suggestion("notify", "Tell the owner: destroy process groups that are made again."),
        _CHECKPOINT,
    ),
    "caching-growth": (
        Suggestion("observe", "Benign while no allocation is retried; watch the retries."),
    ),
    UNDETERMINED: (
        Suggestion("observe", "Attach the hooks, or take two snapshots, to learn the call site."),
    ),
}
