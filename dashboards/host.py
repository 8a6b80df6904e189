"""The panels of a node's host."""

from __future__ import annotations

from gpudiag.dashboards.common import YES_NO_GOOD, Row
from gpudiag.dashboards.panels import (
    NO_LIMIT,
    Limits,
    Query,
    Text,
    from_rule,
    graph,
    timeline,
)
from gpudiag.dashboards.variables import NODE

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
                    "Time since boot", "A fall is a restart of the machine.", "s",
                    Limits("none: faults of the first minutes are often gone after them"),
                ),
                Query(f"gpudiag_host_uptime_seconds{{{NODE}}}", "{{node}}"),
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
