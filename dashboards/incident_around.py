"""What else the node did at the time of an incident: GPU, host, job and server on one time axis."""

from __future__ import annotations

from gpudiag.dashboards.common import Row
from gpudiag.dashboards.marks import risen
from gpudiag.dashboards.panels import NO_LIMIT, Limits, Query, Text, from_rule, graph
from gpudiag.dashboards.variables import GPU, NODE, RANK

_GPU = "{{node}} GPU {{gpu}}"
_RANK = "{{job}} rank {{rank}}"


def row() -> Row:
    """One panel for each that may be behind an incident."""
    clock = f'gpudiag_gpu_clock_hertz{{{GPU}, clock="sm"}}'
    return Row(
        "GPU, host, job and server at that time",
        (
            graph(
                Text("XIDs", "By code.", "short", Limits("1: the code's section says what it means",
                     ((1, "red"),)), "gpu-xid"),
                Query(risen(f"gpudiag_gpu_xid_errors_total{{{GPU}}}"), f"{_GPU} XID {{{{xid}}}}"),
            ),
            graph(
                Text("Clock", "Of the SMs.", "hertz", NO_LIMIT, "thermal-throttle"),
                Query(clock, _GPU),
            ),
            graph(
                Text("Device memory", "Used, of the whole.", "percentunit",
                     Limits("none: allocators fill the memory on purpose"), "memory-slow-growth"),
                Query(
                    f"gpudiag_gpu_memory_used_bytes{{{GPU}}}"
                    f" / gpudiag_gpu_memory_total_bytes{{{GPU}}}",
                    _GPU,
                ),
                top=1,
            ),
            graph(
                Text("Host under pressure", "Share of time in which some task waited (PSI).",
                     "percentunit", from_rule("cpu-pressure", "pressure"), "cpu-pressure"),
                Query(
                    f'gpudiag_host_pressure_ratio{{{NODE}, kind="some"}}', "{{node}} {{resource}}"
                ),
                top=1,
            ),
            graph(
                Text("Time of a step", "By rank.", "s", NO_LIMIT, "straggler"),
                Query(f"gpudiag_train_step_seconds{{{RANK}}}", _RANK),
            ),
            graph(
                Text("Requests", "In the batch, and waiting.", "short", NO_LIMIT,
                     "serving-latency-high"),
                Query(f"gpudiag_serving_requests_running{{{NODE}}}", "{{node}} {{server}} running"),
                Query(f"gpudiag_serving_requests_waiting{{{NODE}}}", "{{node}} {{server}} waiting"),
            ),
        ),
    )  # fmt: skip
