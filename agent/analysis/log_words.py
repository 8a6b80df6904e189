"""What each kind of log line means, to which symptom it belongs, and the next step."""

from __future__ import annotations

from dataclasses import dataclass

from gpudiag.probes.catalog.records import Severity

INTERRUPTED, STARTUP = "training-interrupted", "startup-incomplete"
STORAGE, STALLED = "checkpoint-and-storage", "serving-stalled"
DEPLOY = "crash-after-deploy"


@dataclass(frozen=True, slots=True)
class Words:
    """A kind of line: symptom ("" where none is documented), cause, meaning and next step."""

    symptom: str
    cause: str
    severity: Severity
    meaning: str
    todo: str
    confidence: float = 0.7
    missing: str = ""


WORDS: dict[str, Words] = {
    "join_timeout": Words(
        STARTUP,
        "ranks-not-joined",
        "critical",
        "Not all ranks came together in time",
        "Look at the nodes that are missing: started, resolvable, the port open, the same count?",
        0.85,
    ),
    "network_error": Words(
        INTERRUPTED,
        "network-unstable",
        "critical",
        "The network between ranks reported errors",
        "Look at port, cable and switch of the device named: `gpudiag doctor`.",
        0.8,
    ),
    "peer_closed": Words(
        INTERRUPTED,
        "undetermined",
        "critical",
        "A rank lost its peer: that peer ended, or the network did",
        "Read the peer's log: the rank that failed first complains of nobody.",
        0.4,
        "the logs of the other ranks",
    ),
    "host_memory": Words(
        "host-memory-pressure",
        "host-memory-pressure",
        "critical",
        "The host refused memory",
        "Look at the cgroup's limit and at who grew before: `gpudiag doctor`.",
    ),
    "shm_full": Words(
        INTERRUPTED,
        "process-crash",
        "critical",
        "Shared memory ran out: /dev/shm is too small for the loader's workers",
        "Give the container a larger /dev/shm (--shm-size, or an emptyDir of medium Memory).",
        0.75,
    ),
    "loader_death": Words(
        INTERRUPTED,
        "process-crash",
        "critical",
        "A data-loader worker was killed",
        "Killed: look for an OOM kill (`journalctl -k`). Bus error: enlarge /dev/shm.",
        0.7,
        "the kernel's lines of that minute: `journalctl -k`",
    ),
    "no_space": Words(
        "disk-watermark",
        "disk-watermark",
        "critical",
        "A file system had no room left",
        "Free or enlarge it, and check the checkpoint that was being written.",
        0.85,
    ),
    "checksum": Words(
        STORAGE,
        "checksum-mismatch",
        "critical",
        "A file differs from what was written",
        "Load the checkpoint before this one; compare digests before it is used again.",
        0.8,
    ),
    "upload_failed": Words(
        STORAGE,
        "upload-failing",
        "warning",
        "An upload failed",
        "Look at the store's answer (credentials, throttling) and keep the local copy.",
        0.75,
    ),
    "data_error": Words(
        STARTUP,
        "data-read-errors-in-log",
        "warning",
        "Data could not be read",
        "Look at the file named: there, readable, whole, its mount alive?",
        0.65,
    ),
    "not_finite": Words(
        "loss-abnormal",
        "loss-not-finite",
        "critical",
        "The loss or a gradient is not finite",
        "Stop; go back to the newest checkpoint with a finite loss and look at the data since.",
        0.9,
    ),
    "driver": Words(
        DEPLOY,
        "driver-framework-mismatch",
        "critical",
        "Driver and libraries do not fit together",
        "Match the image's CUDA version to the driver: `gpudiag doctor`.",
        0.85,
    ),
    "no_device": Words(
        STARTUP,
        "cards-missing",
        "critical",
        "A process asked for a GPU that is not there",
        "Compare `nvidia-smi -L` with the ranks per node and CUDA_VISIBLE_DEVICES.",
        0.85,
    ),
    "device_error": Words(
        INTERRUPTED,
        "undetermined",
        "critical",
        "A kernel on the GPU failed: a wrong index in the program, or the hardware",
        "Look for XIDs (`journalctl -k`); run again with CUDA_LAUNCH_BLOCKING=1 for the line.",
        0.5,
        "the kernel's lines of that minute: `journalctl -k`",
    ),
    "environment": Words(
        DEPLOY,
        "environment-drift",
        "critical",
        "Something the program needs is not there, or of another version",
        "Compare the image with the last one that worked.",
        0.65,
    ),
    "engine_hung": Words(
        STALLED,
        "engine-hung",
        "critical",
        "The server's engine died or does not answer its front end",
        "Read the engine's own lines before this one; health of the front end proves nothing.",
        0.7,
    ),
    "load_failed": Words(
        "not-ready",
        "model-not-loaded",
        "critical",
        "The model could not be loaded",
        "Check path, access and completeness of the files named.",
        0.75,
    ),
    "quota": Words(
        "mixed-workload-contention",
        "mixed-workload-contention",
        "warning",
        "A share of a GPU was used up",
        "Compare the quota with what the process needs, and look who shares the card.",
        0.7,
    ),
    "request_timeout": Words(
        "serving-timeouts",
        "undetermined",
        "warning",
        "Requests timed out",
        "Look which ones: the longest outputs, the longest prompts, or all while the queue grew?",
        0.5,
        "lengths and queue times of the requests that timed out",
    ),
    "resume_scratch": Words(
        INTERRUPTED,
        "resume-not-effective",
        "warning",
        "The run found no checkpoint and starts from the beginning",
        "If it should have resumed, stop it and check the checkpoint's path.",
        0.7,
    ),
    "engine_idle": Words(
        STALLED,
        "scheduler-livelock",
        "warning",
        "The scheduler is alive, requests wait, and nothing is scheduled",
        "Look whether the cache is full of what nobody needs any more; restart the engine.",
        0.6,
        "running, waiting and cache usage over the last minutes",
    ),
    "crash": Words(
        INTERRUPTED,
        "process-crash",
        "critical",
        "A process crashed",
        "Look at its core and its last lines.",
        0.75,
    ),
    "error": Words(
        INTERRUPTED,
        "process-crash",
        "critical",
        "A process ended by an exception",
        "Read its traceback; other ranks' complaints follow from it.",
        0.7,
    ),
    "repeated_tokens": Words(
        "output-quality-abnormal",
        "numeric-corruption",
        "warning",
        "The model repeats one token",
        "Restart that replica; count NaN logits (VLLM_COMPUTE_NANS_IN_LOGITS=1).",
        0.7,
    ),
}
"""Kinds that tell nothing bad, or are judged as a whole (exits, timeouts, OOM), are not here."""
