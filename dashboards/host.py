"""The panels of a node's host and of the agent itself."""

from __future__ import annotations

from gpudiag.dashboards.common import NODE, YES_NO_GOOD, Row
from gpudiag.dashboards.panels import (
    NO_LIMIT,
    Limits,
    Query,
    Text,
    from_rule,
    graph,
    listing,
    timeline,
)

_ANY = ((1e-9, "red"),)
_PRESSURE = "gpudiag_host_pressure_ratio"


def machine() -> Row:
    """CPU, memory and disks."""
    memory, low_memory = "host-memory-pressure", "left"
    return Row(
        "Host",
        (
            graph(
                Text(
                    "CPU", "Share of all CPU time that was not idle.", "percentunit",
                    from_rule("cpu-pressure", "full"), "cpu-pressure",
                ),
                Query(f"gpudiag_host_cpu_utilization_ratio{{{NODE}}}", "{{node}}"),
                top=1,
            ),
            graph(
                Text("Load", "Load average of a minute.", "short", NO_LIMIT, "cpu-pressure"),
                Query(f"gpudiag_host_load1{{{NODE}}}", "{{node}}"),
            ),
            graph(
                Text(
                    "Waiting for CPU", "Share of time in which some task waited (PSI).",
                    "percentunit", from_rule("cpu-pressure", "pressure"), "cpu-pressure",
                ),
                Query(f'{_PRESSURE}{{{NODE}, resource="cpu"}}', "{{node}} {{kind}}"),
                top=1,
            ),
            graph(
                Text(
                    "Memory left", "Share that can be had without swapping.", "percentunit",
                    from_rule(memory, low_memory, low_is_bad=True), memory,
                ),
                Query(
                    f"gpudiag_host_memory_available_bytes{{{NODE}}}"
                    f" / gpudiag_host_memory_total_bytes{{{NODE}}}",
                    "{{node}}",
                ),
                top=1,
            ),
            graph(
                Text(
                    "Waiting for memory and disks", "Share of time in which tasks waited (PSI).",
                    "percentunit", from_rule(memory, "stalled_some"), memory,
                ),
                Query(
                    f'{_PRESSURE}{{{NODE}, resource=~"memory|io"}}',
                    "{{node}} {{resource}} {{kind}}",
                ),
                top=1,
            ),
            graph(
                Text(
                    "Disks, room left", "Share of the file system.", "percentunit",
                    from_rule("disk-watermark", "low", low_is_bad=True), "disk-watermark",
                ),
                Query(
                    f"gpudiag_filesystem_available_bytes{{{NODE}}}"
                    f" / gpudiag_filesystem_size_bytes{{{NODE}}}",
                    "{{node}} {{mountpoint}}",
                ),
                top=1,
            ),
        ),
    )  # fmt: skip


def network() -> Row:
    """Ethernet and InfiniBand."""
    flapping = "network-link-flapping"
    return Row(
        "Network",
        (
            graph(
                Text("Traffic", "Received and sent.", "Bps", NO_LIMIT, flapping),
                Query(
                    f"rate(gpudiag_network_rx_bytes_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} {{device}} in",
                ),
                Query(
                    f"rate(gpudiag_network_tx_bytes_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} {{device}} out",
                ),
            ),
            graph(
                Text(
                    "Links that changed", "Times a carrier came or went, or an InfiniBand link went"
                    " down, in the last hour.", "short", from_rule(flapping, "times"), flapping,
                ),
                Query(
                    f"increase(gpudiag_network_carrier_changes_total{{{NODE}}}[1h])",
                    "{{node}} {{device}}",
                ),
                Query(
                    f"increase(gpudiag_ib_link_downed_total{{{NODE}}}[1h])",
                    "{{node}} {{device}} port {{port}}",
                ),
            ),
            graph(
                Text("Errors and drops", "Per second.", "cps", NO_LIMIT, flapping),
                Query(
                    f"rate(gpudiag_network_errors_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} {{device}} errors",
                ),
                Query(
                    f"rate(gpudiag_network_drops_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} {{device}} drops",
                ),
                Query(
                    f"rate(gpudiag_ib_errors_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} {{device}} {{kind}}",
                ),
                Query(
                    f"rate(gpudiag_tcp_retransmits_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} TCP sent again",
                ),
            ),
            timeline(
                Text(
                    "Links up", "Interfaces with a carrier, and active InfiniBand ports.", "short",
                    Limits("no, where a cable should be"), flapping,
                ),
                Query(f"gpudiag_network_up{{{NODE}}}", "{{node}} {{device}}"),
                Query(f"gpudiag_ib_port_up{{{NODE}}}", "{{node}} {{device}} port {{port}}"),
                words=YES_NO_GOOD,
                width=24,
            ),
        ),
        collapsed=True,
    )  # fmt: skip


def agent() -> Row:
    """Whether the agent sees, keeps up and stays small."""
    agents = {"node": "node", "version": "version", "revision": "revision", "python": "Python"}
    lost = Limits("any: something was not seen", _ANY)
    return Row(
        "The agent itself",
        (
            timeline(
                Text(
                    "Probes work", "Whether each probe's last read succeeded.", "short",
                    Limits("no: what it reads is not known"),
                ),
                Query(f"gpudiag_probe_success{{{NODE}}}", "{{node}} {{probe}}"),
                words=YES_NO_GOOD,
            ),
            graph(
                Text(
                    "Age of what is known", "Since each probe last succeeded.", "s",
                    Limits("15 s, from which on a series is stale", ((15, "red"),)),
                ),
                Query(
                    f"time() - gpudiag_probe_last_success_timestamp_seconds{{{NODE}}}",
                    "{{node}} {{probe}}",
                ),
                width=12,
            ),
            graph(
                Text(
                    "Time of a read", "By probe.", "s",
                    Limits("1 s, the default cadence", ((1, "orange"),)),
                ),
                Query(f"gpudiag_probe_duration_seconds{{{NODE}}}", "{{node}} {{probe}}"),
            ),
            graph(
                Text("Dropped", "Samples, records and kernel lines, per second.", "cps", lost),
                Query(
                    f"rate(gpudiag_samples_dropped_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} samples: {{reason}}",
                ),
                Query(
                    f"rate(gpudiag_hook_records_dropped_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} records of {{job}} rank {{rank}}",
                ),
                Query(
                    f"rate(gpudiag_kmsg_dropped_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} kernel lines in a flood",
                ),
                Query(
                    f"rate(gpudiag_kmsg_lost_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} kernel lines overwritten",
                ),
            ),
            graph(
                Text("Packets of training processes", "Per second.", "cps", NO_LIMIT),
                Query(
                    f"rate(gpudiag_channel_packets_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} {{outcome}}",
                ),
            ),
            graph(
                Text("Bytes of training processes", "Up to the agent, and down.", "Bps", NO_LIMIT),
                Query(
                    f"rate(gpudiag_channel_bytes_total{{{NODE}}}[$__rate_interval])",
                    "{{node}} {{direction}}",
                ),
            ),
            graph(
                Text(
                    "CPU of the agent", "Of one CPU.", "percentunit",
                    Limits("0.1, above which it costs a loader its core", ((0.1, "orange"),)),
                ),
                Query(
                    f"rate(gpudiag_agent_cpu_seconds_total{{{NODE}}}[$__rate_interval])", "{{node}}"
                ),
            ),
            graph(
                Text(
                    "Memory of the agent", "Resident, all its processes.", "bytes",
                    Limits("256 MiB, the limit in deploy/overlays/daemonset", ((2**28, "red"),)),
                ),
                Query(f"gpudiag_agent_resident_bytes{{{NODE}}}", "{{node}}"),
            ),
            listing(
                Text("Agents", "Which runs where.", "short", Limits("none: these are names")),
                Query(f"gpudiag_build_info{{{NODE}}}", "{{node}}"),
                names=agents,
                width=8,
            ),
        ),
        collapsed=True,
    )  # fmt: skip
