"""Memory and leaks: the floor after each step, what surrounds it, how fast it grows and how long
it lasts.
"""

from __future__ import annotations

from gpudiag.dashboards import registry
from gpudiag.dashboards.common import Row, dashboard, findings, unknown
from gpudiag.dashboards.marks import ACTIONS, CAPTURES, XIDS, checkpoints, starts
from gpudiag.dashboards.panels import NO_LIMIT, Limits, Query, Text, from_rule, graph
from gpudiag.dashboards.quirks import Json
from gpudiag.dashboards.variables import NODE, RANK

_ONE = "{{job}} rank {{rank}}"
_LEAK = "memory-slow-growth"
_HOST = "host-memory-pressure"
_SPAN = "30m"
"""Over this a slope is taken: longer than an evaluation or a checkpoint, short of the OOM."""
_WEEK = 7 * 86400
_NONE = Limits("none: how much is right depends on the model; growth is what matters")
_STEADY = Limits("none: 0 is steady; the rule tells growth from cycles, this line does not")


def build() -> Json:
    """The dashboard as JSON."""
    return dashboard(
        registry.MEMORY,
        "Memory of a training job: what grows, how fast, who holds it and when it ends.",
        ("cluster", "node", "job", "rank"),
        (CAPTURES, checkpoints(RANK), starts(RANK), XIDS, ACTIONS),
        (
            Row("What is wrong", (findings(), unknown())),
            _floor(),
            _growth(),
            _fragments(),
            _holders(),
            _host(),
        ),
    )


def _torch(name: str) -> str:
    return f"gpudiag_torch_{name}_bytes{{{RANK}}}"


def _floor() -> Row:
    bands = (
        ("Allocated, the floor", "In live tensors at the end of a step: what a leak lifts.",
         ("allocated",)),
        ("Reserved", "Held by torch's allocator, and the most in the interval.",
         ("reserved", "reserved_peak")),
        ("Outside torch", "Of the process, but not torch's: contexts, NCCL, libraries.",
         ("non_torch",)),
        ("Peak of the step", "Most in live tensors during the interval: activations.",
         ("allocated_peak",)),
        ("Asked for, and still in use", "Before rounding, and with what a stream still uses.",
         ("requested", "active")),
        ("Pools of CUDA graphs; pinned host memory", "Both last as long as the process.",
         ("private_pool", "pinned")),
    )  # fmt: skip
    return Row(
        "The floor",
        tuple(
            graph(
                Text(title, about, "bytes", _NONE, _LEAK),
                *(
                    Query(_torch(name), f"{_ONE} {name.replace('_', ' ')}" if rest else _ONE)
                    for name in names
                    for rest in [len(names) > 1]
                ),
                # A leak lifts a floor of tens of gigabytes by a few percent.
                zero=False,
            )
            for title, about, names in bands
        ),
    )


def _growth() -> Row:
    used = f"gpudiag_gpu_memory_total_bytes{{{NODE}}} - gpudiag_gpu_memory_used_bytes{{{NODE}}}"
    room = f"gpudiag_train_info{{{RANK}}} * on (uuid) group_left () max by (uuid) ({used})"
    # Plus nothing drops the name: two series that differ by it alone cannot both have a slope.
    held = f"{_torch('reserved')} + {_torch('non_torch')} or {_torch('reserved')} + 0"
    slope = f"deriv(({held})[{_SPAN}:1m])"
    left = f"max by (job, rank) ({room}) / (max by (job, rank) ({slope}) > 0) < {_WEEK}"
    hours = Limits(
        "6 h, time for a planned restart; 1 h, as urgent as rule memory-slow-growth calls it",
        ((3600, "orange"), (6 * 3600, "green")),
        below="red",
    )
    return Row(
        "Growth",
        (
            graph(
                Text("Floor", f"Slope over {_SPAN}.", "Bps", _STEADY, _LEAK),
                Query(f"deriv({_torch('allocated')}[{_SPAN}])", _ONE),
                zero=False,
            ),
            graph(
                Text("Outside torch", f"Slope over {_SPAN}.", "Bps", _STEADY, _LEAK),
                Query(f"deriv({_torch('non_torch')}[{_SPAN}])", _ONE),
                zero=False,
            ),
            graph(
                Text("Full in", "At the pace of the last half hour; no line beyond a week.",
                     "s", hours, _LEAK),
                Query(left, _ONE),
            ),
            graph(
                Text("Device", "Used on each rank's GPU, by all processes.", "bytes", _NONE, _LEAK),
                Query(
                    f"max by (job, rank) (gpudiag_train_info{{{RANK}}} * on (uuid) group_left ()"
                    f" max by (uuid) (gpudiag_gpu_memory_used_bytes{{{NODE}}}))",
                    _ONE,
                ),
            ),
        ),
    )  # fmt: skip


def _fragments() -> Row:
    events = (
        ("alloc_retries", "cache emptied to serve a request"),
        ("ooms", "out of memory"),
        ("device_allocs", "segments taken from the device"),
    )
    allocated, reserved = _torch("allocated"), _torch("reserved")
    return Row(
        "Fragmentation",
        (
            graph(
                Text("Reserved but free", "Share of what the allocator holds.", "percentunit",
                     Limits("none: a cache is normal until the allocator has to retry")),
                Query(f"1 - {allocated} / {reserved}", _ONE),
                Query(f"{_torch('inactive_split')} / {reserved}", f"{_ONE} in split segments"),
                top=1,
            ),
            graph(
                Text("Largest free block", "A larger request needs a new segment.", "bytes", _NONE),
                Query(_torch("largest_free_block"), _ONE),
                Query(_torch("stream_free"), f"{_ONE} for stream {{{{stream}}}} only"),
            ),
            graph(
                Text("Allocator under stress", "Per second.", "cps",
                     Limits("none: in warm-up all rise; in a steady job none should")),
                *(
                    Query(
                        f"rate(gpudiag_torch_{name}_total{{{RANK}}}[$__rate_interval])",
                        f"{_ONE} {words}",
                    )
                    for name, words in events
                ),
            ),
        ),
    )  # fmt: skip


def _holders() -> Row:
    site = f"{_ONE} {{{{site}}}}"
    return Row(
        "Who holds it",
        (
            graph(
                Text("Growing call sites", "The largest, after a snapshot.", "bytes", _NONE, _LEAK),
                Query(f"gpudiag_leak_site_bytes{{{RANK}}}", site),
            ),
            graph(
                Text("Growth of call sites", "Bytes a step, between snapshots.", "bytes", _STEADY,
                     _LEAK),
                Query(f"gpudiag_leak_site_bytes_per_step{{{RANK}}}", site),
                zero=False,
            ),
            graph(
                Text("Live blocks by age", "Old ones that grow in number are a leak's.", "short",
                     _NONE, _LEAK),
                Query(f"gpudiag_torch_live_blocks{{{RANK}}}", f"{_ONE} {{{{age}}}}"),
            ),
            graph(
                Text("The model", "On this rank, by kind.", "bytes", _NONE),
                Query(
                    "sum by (job, rank, kind)"
                    f' (gpudiag_model_bytes{{{RANK}, scope="local"}})',
                    f"{_ONE} {{{{kind}}}}",
                ),
                width=12,
            ),
            graph(
                Text("The budget", "What the model and its layout should need.", "bytes", _NONE),
                Query(f"gpudiag_budget_bytes{{{RANK}}}", f"{_ONE} {{{{kind}}}}"),
                width=12,
            ),
        ),
    )  # fmt: skip


def _host() -> Row:
    process = f"{_ONE} {{{{role}}}} {{{{pid}}}}"
    group = "gpudiag_cgroup_memory"
    return Row(
        "Memory of the host",
        (
            graph(
                Text("Processes", "Shared pages divided among their users.", "bytes", NO_LIMIT,
                     _HOST),
                Query(f"gpudiag_process_pss_bytes{{{RANK}}}", process),
                Query(f"gpudiag_process_resident_bytes{{{RANK}}}", f"{process} resident"),
            ),
            graph(
                Text("Control groups", "Share of the limit; file cache is not counted.",
                     "percentunit", from_rule(_HOST, "group"), _HOST),
                Query(
                    f"{group}_bytes{{{NODE}}} / {group}_limit_bytes{{{NODE}}}",
                    "{{node}} {{cgroup}}",
                ),
                top=1,
            ),
            graph(
                Text("Killed for want of memory", "Processes, per second.", "cps",
                     Limits("any: something was killed", ((1e-9, "red"),)), _HOST),
                Query(
                    f"rate(gpudiag_cgroup_oom_kills_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} {{cgroup}}",
                ),
            ),
        ),
    )  # fmt: skip
