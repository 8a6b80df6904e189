"""The canary beside the GPU and the host: one request of known cost, and what was in its way."""

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
from gpudiag.dashboards.serving_traffic import ONE
from gpudiag.dashboards.variables import GPU, NODE, SERVER

_SLOW = "serving-latency-high"
_QUALITY = "output-quality-abnormal"
_HOT = 'reason=~"hw_thermal|sw_thermal"'


def beside() -> Row:
    """The canary, the GPU and the host on one axis, and each alone below it."""
    took = f"gpudiag_canary_seconds{{{SERVER}}}"
    clock = f'gpudiag_gpu_clock_hertz{{{GPU}, clock="sm"}}'
    pressure = f'gpudiag_host_pressure_ratio{{{NODE}, resource="cpu", kind="some"}}'
    one_axis = Text(
        "Canary, GPU and host",
        "All as shares: the canary's speed and the GPUs' clocks of the best they had in the last"
        " hour, how full the KV cache is, and how long tasks waited for a CPU. What moves with the"
        " canary is the one to look at.",
        "percentunit",
        Limits("none: lines that bend together are what matters"),
        _SLOW,
    )
    return Row(
        "Canary, GPU and host on one axis",
        (
            graph(
                one_axis,
                Query(f"min_over_time({took}[1h]) / {took}", f"{ONE} canary's speed"),
                Query(
                    f"min by (node) ({clock} / max_over_time({clock}[1h]))",
                    "{{node}} slowest GPU's clock",
                ),
                Query(f"max by (node) (gpudiag_gpu_utilization_ratio{{{GPU}}})", "{{node}} GPU"),
                Query(f"max by (node) ({pressure})", "{{node}} waits for CPU"),
                Query(
                    f"max by (node, server) (gpudiag_serving_kv_cache_usage_ratio{{{SERVER}}})",
                    f"{ONE} KV cache",
                ),
                top=1,
                width=24,
            ),
            graph(
                Text("Time of the canary", "Whole, and to its first piece.", "s", NO_LIMIT, _SLOW),
                Query(took, ONE),
                Query(f"gpudiag_canary_ttft_seconds{{{SERVER}}}", f"{ONE} first piece"),
            ),
            graph(
                Text("GPUs slowed by heat", "Share of the chosen GPUs that say so.", "percentunit",
                     from_rule(_SLOW, "throttled"), "thermal-throttle"),
                Query(
                    f"avg by (node) (max by (node, uuid)"
                    f" (gpudiag_gpu_throttle_active{{{GPU}, {_HOT}}}))",
                    "{{node}}",
                ),
                top=1,
            ),
            graph(
                Text("Waiting for CPU", "Share of time in which some task waited (PSI).",
                     "percentunit", from_rule(_SLOW, "pressure"), "cpu-pressure"),
                Query(pressure, "{{node}}"),
                top=1,
            ),
            timeline(
                Text("Canary is answered rightly", "By the kind of answer that the server gives.",
                     "short", Limits("no: users get wrong answers or none"), "not-ready"),
                Query(
                    f"gpudiag_canary_ok{{{SERVER}}} * on (node, server) group_left (api, gives)"
                    f' gpudiag_canary_info{{{NODE}, server=~"$server"}}'
                    f" or on (node, server) gpudiag_canary_ok{{{SERVER}}}",
                    f"{ONE} {{{{gives}}}} by {{{{api}}}}",
                ),
                words=YES_NO_GOOD,
                width=8,
                height=7,
            ),
            graph(
                Text("Likeness of the answer", "To the baseline.", "percentunit",
                     from_rule(_QUALITY, "useless", low_is_bad=True), _QUALITY),
                Query(f"gpudiag_canary_similarity_ratio{{{SERVER}}}", ONE),
                top=1,
            ),
            graph(
                Text("Canary requests", "Per minute, by outcome; busy and over budget were not"
                     " sent.", "cpm", NO_LIMIT),
                Query(
                    "60 * sum by (node, server, outcome) (rate(gpudiag_canary_requests_total"
                    f'{{{NODE}, server=~"$server"}}[$__rate_interval]))',
                    f"{ONE} {{{{outcome}}}}",
                ),
            ),
        ),
    )  # fmt: skip


def memory() -> Row:
    """What the servers hold on the device and on the host, and what they should need."""
    leak = "serving-memory-growth"
    grows = Limits("none: pools fill at the start; growth between requests is what matters")
    return Row(
        "Memory of the server",
        (
            graph(
                Text("Device", "Held by processes of the chosen GPUs.", "bytes", grows, leak),
                Query(f"gpudiag_gpu_memory_used_bytes{{{GPU}}}", "{{node}} GPU {{gpu}}"),
            ),
            graph(
                Text("Server's processes", "Resident memory on the host.", "bytes", grows, leak),
                Query(
                    f'gpudiag_process_resident_bytes{{{NODE}, role="server"}}',
                    "{{node}} {{job}} {{pid}}",
                ),
            ),
            graph(
                Text("Budget of a replica", "What model, cache and the rest should need.", "bytes",
                     Limits("none: compare with the device"), "replica-does-not-fit"),
                Query(f'gpudiag_budget_bytes{{{SERVER}, server!=""}}', f"{ONE} {{{{kind}}}}"),
            ),
        ),
    )  # fmt: skip
