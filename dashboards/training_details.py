"""The panels of a training job that are seldom needed: kernels, phases, batches and settings."""

from __future__ import annotations

from gpudiag.dashboards.common import Row
from gpudiag.dashboards.panels import NO_LIMIT, Limits, Query, Text, from_rule, graph, listing
from gpudiag.dashboards.variables import RANK

_ONE = "{{job}} rank {{rank}}"


def row() -> Row:
    """Kernels, phases, batches and settings: for when the rows above do not say why."""
    asked = ("precision", "recompute", "optimizer", "sharding")
    named = {"node": "node", "job": "job", "rank": "rank"} | {name: name for name in asked}
    failed = Limits("any: a restart would lose more work", ((1e-9, "red"),))
    return Row(
        "Details",
        (
            graph(
                Text("Kernels", "Device time of a step by kind, mean over ranks.", "s", NO_LIMIT),
                Query(
                    f"avg by (job, kind) (gpudiag_train_kernel_seconds{{{RANK}}})",
                    "{{job}} {{kind}}",
                ),
                stacked=True,
            ),
            graph(
                Text("Phases", "Time of each phase, mean over ranks.", "s", NO_LIMIT),
                Query(
                    f"avg by (job, phase) (gpudiag_train_phase_seconds{{{RANK}}})",
                    "{{job}} {{phase}}",
                ),
                stacked=True,
            ),
            graph(
                Text("Checkpoints that failed", "Per second.", "cps", failed),
                Query(
                    f"rate(gpudiag_checkpoint_failures_total{{{RANK}}}[$__rate_interval])",
                    f"{_ONE} write",
                ),
                Query(
                    f"rate(gpudiag_checkpoint_upload_failures_total{{{RANK}}}[$__rate_interval])",
                    f"{_ONE} upload",
                ),
            ),
            graph(
                Text("Batch", "Samples of a rank's batch.", "short", NO_LIMIT),
                Query(f"gpudiag_train_batch_size{{{RANK}}}", _ONE),
                Query(f"gpudiag_train_micro_batches{{{RANK}}}", f"{_ONE} micro-batches"),
            ),
            graph(
                Text(
                    "Sequence length", "Tokens, as observed, and the most that the configuration"
                    " allows.", "short", NO_LIMIT,
                ),
                Query(f"gpudiag_train_sequence_length{{{RANK}}}", _ONE),
                Query(f"gpudiag_train_sequence_length_limit{{{RANK}}}", f"{_ONE} limit"),
            ),
            graph(
                Text(
                    "Pushed off the CPU", "Involuntary context switches per second.", "cps",
                    from_rule("cpu-pressure", "switches"), "cpu-pressure",
                ),
                Query(
                    "rate(gpudiag_process_context_switches_total"
                    f'{{{RANK}, kind="involuntary"}}[$__rate_interval])',
                    f"{_ONE} {{{{role}}}} {{{{pid}}}}",
                ),
            ),
            listing(
                Text(
                    "As configured", "What the job was asked to do.", "none",
                    Limits("none: these are settings"), "startup-oom",
                ),
                Query(f"gpudiag_train_config_info{{{RANK}}}", _ONE),
                names=named,
            ),
        ),
        collapsed=True,
    )  # fmt: skip
