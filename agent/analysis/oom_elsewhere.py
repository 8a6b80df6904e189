"""Out-of-memory messages that torch's caching allocator did not write: what each one implies."""

from __future__ import annotations

from gpudiag.agent.analysis.oom_fields import Figures
from gpudiag.agent.analysis.oom_text import OomText
from gpudiag.agent.analysis.oom_words import ABSURD, OTHERS, STARTUP, UNDETERMINED, Meaning, size

# A bare device has its driver's share taken; with less free than this, somebody holds memory.
_BARE = 0.8


def elsewhere(message: OomText) -> Meaning | None:
    """The cause that the kind of message implies; None where its figures must be asked."""
    if message.kind == "refusal":
        return _refusal(message)
    if message.kind == "host":
        return _host(message.figures)
    return _ABSURD if message.figures.absurd else _WITHOUT_FIGURES.get(message.kind)


def _refusal(message: OomText) -> Meaning:
    seen, text = message.figures, message.compact
    if "Freememoryondevice" in text:
        why = "the server asks for a share of the device that is not free when it starts"
        if seen.free is not None and seen.requested is not None:
            why = (
                f"only {size(seen.free)} of {size(seen.total)} are free when the server starts,"
                f" and it wants {size(seen.requested)}"
            )
        todo = "Find who holds the rest (`nvidia-smi`), or lower gpu_memory_utilization."
        return Meaning(STARTUP, OTHERS, _held_confidence(seen), why, todo)
    if "maxseqlen" in text:
        why = "one request of the configured length does not fit into the key-value pool"
        if seen.free is not None and seen.requested is not None:
            why += f": it needs {size(seen.requested)}, there are {size(seen.free)}"
        return Meaning(STARTUP, "sequence-too-long", 0.85, why, "Lower max_model_len.")
    why = "weights and workspace leave nothing for the key-value pool within the share allowed"
    todo = "Use more GPUs or a smaller copy of the model; raise the server's memory share if low."
    return Meaning("replica-does-not-fit", "replica-does-not-fit", 0.7, why, todo)


def _held_confidence(seen: Figures) -> float:
    """A share above what a bare device has free is asked too much; less is held by someone."""
    if seen.free is None or not seen.total:
        return 0.6
    return 0.85 if seen.free < _BARE * seen.total else 0.5


def _host(seen: Figures) -> Meaning:
    asked = f" of {size(seen.requested)}" if seen.requested else ""
    why = f"the host, not the GPU, refused a request{asked}"
    todo = "Look at the cgroup's limit and at the loaders' memory: `gpudiag doctor`."
    wanted = ("kernel lines of that minute: `journalctl -k`",)
    return Meaning("host-memory-pressure", "host-memory-pressure", 0.8, why, todo, wanted)


_ABSURD = Meaning(
    "",
    ABSURD,
    0.9,
    "more than an exabyte was asked for: the size is wrong, not the memory too small",
    "Look at the shape that the line computes; a corrupted size from a collective does it too.",
)

_WITHOUT_FIGURES = {
    "assert": Meaning(
        STARTUP,
        UNDETERMINED,
        0.75,
        "torch ran out of memory, and failed to ask the driver about it while writing the message"
        " (MIG, Jetson and containers without NVML do that)",
        "Treat it as out of memory; `gpudiag doctor` says why NVML does not answer.",
        ("a snapshot at the time of the error", "`nvidia-smi` at that time"),
    ),
    "driver": Meaning(
        STARTUP,
        UNDETERMINED,
        0.6,
        "the driver itself had no memory left, for something that torch's allocator does not"
        " serve: a context, a module, a communicator, another library",
        "Leave it some room: a lower memory fraction, or torch.cuda.empty_cache() before.",
        ("`nvidia-smi` at that time: who holds the device",),
    ),
    "library": Meaning(
        STARTUP,
        UNDETERMINED,
        0.6,
        "a library could not allocate its workspace: torch's cache or another process holds it all"
        " (a wrong index in an earlier kernel can also end like this)",
        "Make the batch smaller; if that changes nothing, run with CUDA_LAUNCH_BLOCKING=1.",
        ("`nvidia-smi` at that time: who holds the device",),
    ),
}
