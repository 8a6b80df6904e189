"""Which panels of which incident are shown: those that a person on call would look at."""

from __future__ import annotations

from gpudiag.dashboards import registry
from tests.pictures.picture import Picture

PICTURES = {
    "node": Picture(
        registry.NODE,
        "A node of eight GPUs: GPU 3 overheats, GPU 6 loses memory to an uncorrectable error.",
        (
            "Findings", "GPUs missing", "GPUs", "Utilisation", "Temperature", "Margin",
            "Slowed down", "XIDs", "Uncorrectable memory errors",
        ),
        900.0,
        {"node": "demo"},
    ),
    "training": Picture(
        registry.TRAINING,
        "Two ranks: the loader of rank 0 is 50 ms late in every step, and rank 1 waits for it.",
        (
            "Findings", "Ranks seen", "Ranks side by side", "Where a step's time goes",
            "Comm wait against compute", "Time of a step", "Data wait", "Loader's queue",
        ),
        300.0,
        {"node": "straggler/one-loader-starves"},
    ),
    "memory": Picture(
        registry.MEMORY,
        "A training job: rank 1 keeps tensors until it is restarted from its last checkpoint.",
        (
            "Findings", "Allocated, the floor", "Reserved", "Device", "Full in",
            "Live blocks by age", "Growing call sites",
        ),
        3900.0,
        {"node": "leak"},
    ),
    "serving": Picture(
        registry.SERVING,
        "A chat server: its GPU gets hot, tokens take longer, the batch fills, requests wait.",
        (
            "Findings", "Up and ready", "Settings", "Canary, GPU and host", "Running", "Waiting",
            "KV cache in use", "Preemptions", "Time to the first token", "Time between tokens",
            "Time of the canary",
        ),
        2700.0,
        {"node": "chat"},
    ),
    "incident": Picture(
        registry.INCIDENT,
        "A leak as an alert's link opens it: why, what else it could be, what was done.",
        (
            "When it was there", "Sure", "Somebody is on it for", "What it was", "Evidence",
            "Rivals", "Before and after: $fact", "Evidence over time", "Actions",
            "Actions over time", "Came back", "Actions left", "Device memory", "Time of a step",
            "Host under pressure",
        ),
        3900.0,
        {
            "node": "leak", "symptom": "memory-slow-growth", "subject": ".*rank=1.*",
            "fact": "gpudiag_torch_allocated_bytes",
        },
    ),
    "fleet": Picture(
        registry.FLEET,
        "Nodes, each with an incident of its own: the worst first.",
        (
            "Nodes", "Critical", "Agents gone", "GPUs missing", "Cannot tell", "Breakers open",
            "Nodes, worst first", "Findings, worst first", "Findings over time",
            "Jobs, worst first", "Held up by one rank",
            "Least busy", "Versions",
        ),
        3600.0,
    ),
    "agent": Picture(
        registry.AGENT,
        "An agent whose driver stops to answer after a log ran away.",
        (
            "Probes work", "Cannot tell", "Age of what is known", "Time of a read", "Dropped",
            "Kernel lines that repeat", "Log lines dropped or cut", "Actions",
            "Findings that fired", "Actions left", "Breaker", "CPU of the agent",
            "Memory of the agent", "Bytes of training processes",
        ),
        2400.0,
        {"node": "rest"},
    ),
}  # fmt: skip
"""By the picture's name."""
