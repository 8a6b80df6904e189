"""The agents themselves: whether they see, keep up, act within their limits and stay small."""

from __future__ import annotations

from gpudiag.dashboards import agent_acts, registry
from gpudiag.dashboards.common import YES_NO_GOOD, Row, dashboard, findings, unknown
from gpudiag.dashboards.marks import ACTIONS, AGENTS
from gpudiag.dashboards.panels import NO_LIMIT, Limits, Query, Text, graph, listing, timeline
from gpudiag.dashboards.quirks import Json
from gpudiag.dashboards.variables import NODE, PROBE

_PROBE = "{{node}} {{probe}}"
_LOST = Limits("any: something was not seen", ((1e-9, "red"),))


def build() -> Json:
    """The dashboard as JSON."""
    return dashboard(
        registry.AGENT,
        "Agents: which of their sources they read, what they lose, what they did and what they"
        " cost.",
        ("cluster", "node", "probe"),
        (AGENTS, ACTIONS),
        (_sees(), _loses(), agent_acts.ledger(), agent_acts.hooks(), _costs()),
    )


def _sees() -> Row:
    return Row(
        "Does it see",
        (
            timeline(
                Text("Probes work", "Whether each probe's last read succeeded.", "short",
                     Limits("no: what it reads is not known")),
                Query(f"gpudiag_probe_success{{{PROBE}}}", _PROBE),
                words=YES_NO_GOOD,
                width=16,
            ),
            unknown(),
            findings(24),
            graph(
                Text("Age of what is known", "Since each probe last succeeded.", "s",
                     Limits("15 s, from which on a series is stale", ((15, "red"),))),
                Query(f"time() - gpudiag_probe_last_success_timestamp_seconds{{{PROBE}}}", _PROBE),
                width=12,
            ),
            graph(
                Text("Time of a read", "By probe.", "s",
                     Limits("1 s, the default cadence", ((1, "orange"),))),
                Query(f"gpudiag_probe_duration_seconds{{{PROBE}}}", _PROBE),
                width=12,
            ),
        ),
    )  # fmt: skip


def _rate(name: str) -> str:
    return f"rate(gpudiag_{name}_total{{{NODE}}}[$__rate_interval])"


def _loses() -> Row:
    return Row(
        "What it loses",
        (
            graph(
                Text("Dropped", "Samples, records and kernel lines, per second.", "cps", _LOST),
                Query(_rate("samples_dropped"), "{{node}} samples {{reason}}"),
                Query(_rate("hook_records_dropped"), "{{node}} records of {{job}} rank {{rank}}"),
                Query(_rate("kmsg_dropped"), "{{node}} kernel lines in a flood"),
                Query(_rate("kmsg_lost"), "{{node}} kernel lines overwritten"),
            ),
            graph(
                Text("Kernel lines that repeat", "Counted instead of kept, per second.", "cps",
                     Limits("none: nothing is lost; a flood says that a device is in trouble"),
                     "gpu-xid"),
                Query(_rate("kmsg_repeats"), "{{node}}"),
            ),
            graph(
                Text("Log lines dropped or cut", "Too many alike, or too long, per second.", "cps",
                     _LOST),
                Query(_rate("log_lines_dropped"), "{{node}} dropped"),
                Query(_rate("log_lines_cut"), "{{node}} cut"),
            ),
            graph(
                Text("Logs passed over", "Bytes that grew faster than reading may cost.", "Bps",
                     _LOST),
                Query(_rate("log_skipped_bytes"), "{{node}}"),
                width=12,
            ),
            graph(
                Text("Logs followed", "And those that are there and may not be read.", "short",
                     Limits("none: `gpudiag doctor` says which right is missing")),
                Query(f"gpudiag_log_files{{{NODE}}}", "{{node}} followed"),
                Query(f"gpudiag_log_files_unreadable{{{NODE}}}", "{{node}} not readable"),
                width=12,
            ),
        ),
    )  # fmt: skip


def _costs() -> Row:
    agents = {"node": "node", "version": "version", "revision": "revision", "python": "Python"}
    return Row(
        "What it costs",
        (
            graph(
                Text("CPU of the agent", "Of one CPU.", "percentunit",
                     Limits("0.1, above which it costs a loader its core", ((0.1, "orange"),))),
                Query(_rate("agent_cpu_seconds"), "{{node}}"),
            ),
            graph(
                Text("Memory of the agent", "Resident, all its processes.", "bytes",
                     Limits("256 MiB, the limit in deploy/overlays/daemonset", ((2**28, "red"),))),
                Query(f"gpudiag_agent_resident_bytes{{{NODE}}}", "{{node}}"),
            ),
            graph(
                Text("Bytes of training processes", "Up to the agent, and down.", "Bps", NO_LIMIT),
                Query(_rate("channel_bytes"), "{{node}} {{direction}}"),
            ),
            listing(
                Text("Agents", "Which runs where.", "short", Limits("none: these are names")),
                Query(f"gpudiag_build_info{{{NODE}}}", "{{node}}"),
                names=agents,
            ),
        ),
    )  # fmt: skip
