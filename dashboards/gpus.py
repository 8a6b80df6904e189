"""The panels of a node's GPUs: which there are, load, memory, heat and clocks."""

from __future__ import annotations

from gpudiag.dashboards.common import YES_NO_BAD, Row
from gpudiag.dashboards.panels import (
    NO_LIMIT,
    Limits,
    Query,
    Text,
    from_rule,
    graph,
    listing,
    number,
    timeline,
)
from gpudiag.dashboards.variables import GPU, NODE

ONE = "{{node}} GPU {{gpu}}"
ANY = ((1, "red"),)
_ACTIONS = {
    0: ("none", "green"),
    1: ("GPU reset", "red"),
    2: ("node reboot", "red"),
    3: ("drain P2P", "orange"),
    4: ("drain and reset", "red"),
    5: ("recover IMEX domain", "orange"),
    6: ("bus reset", "red"),
    7: ("system reboot", "red"),
}


def state() -> Row:
    """Which GPUs there are, and what the driver says of them."""
    missing = Text(
        "GPUs missing",
        "GPUs this node should have, less those that the driver lists.",
        "short",
        Limits("1, since a job that expects the GPU cannot start", ANY),
        "gpu-count-low",
    )
    lost = Text(
        "Lost", "Whether the driver lost a GPU.", "short", Limits("any is a fault"), "gpu-lost"
    )
    verdict = Text(
        "Driver's verdict",
        "What NVML says is needed before the GPU may be used again.",
        "short",
        Limits("all but none: the driver itself asks for it"),
        "driver-reset-required",
    )
    names = {"node": "node", "gpu": "GPU", "name": "model", "driver": "driver", "cuda": "CUDA"}
    names |= {"pci_bus_id": "PCI", "uuid": "UUID", "namespace": "namespace", "pod": "pod"}
    which = Text("GPUs", "Which GPU is which.", "short", Limits("none: these are names"))
    absent = f"sum by (node) (gpudiag_gpus_expected{{{NODE}}} - gpudiag_gpus{{{NODE}}})"
    return Row(
        "State of the GPUs",
        (
            number(missing, Query(absent, "{{node}}")),
            timeline(
                lost, Query(f"gpudiag_gpu_lost{{{GPU}}}", ONE), words=YES_NO_BAD, width=10
            ),
            timeline(
                verdict, Query(f"gpudiag_gpu_recovery_action{{{GPU}}}", ONE), words=_ACTIONS,
                width=10,
            ),
            listing(which, Query(f"gpudiag_gpu_info{{{GPU}}}", "{{uuid}}"), names=names),
        ),
    )  # fmt: skip


def load() -> Row:
    """How busy the GPUs are."""
    shares = (
        ("Utilisation", "utilization", "Share of time in which any kernel ran: one small kernel"
         " counts as much as a full GPU."),
        ("SMs active", "sm_active", "Share of cycles in which an SM had work; the honest load."),
        ("SM occupancy", "sm_occupancy", "Resident warps over the most an SM can hold."),
        ("Tensor cores", "tensor_active", "Share of cycles in which the tensor cores worked."),
        ("DRAM bandwidth", "memory_bandwidth", "Share of the peak bandwidth; Hopper and later."),
        ("Memory busy", "memory_busy", "Share of time with any access; says nothing of bandwidth."),
    )  # fmt: skip
    return Row(
        "Load",
        tuple(
            graph(
                Text(title, about, "percentunit", NO_LIMIT),
                Query(f"gpudiag_gpu_{name}_ratio{{{GPU}}}", ONE),
                top=1,
            )
            for title, name, about in shares
        ),
    )


def memory() -> Row:
    """Who holds the device memory."""
    used = Text(
        "Memory used",
        "Held by processes, beside what the driver keeps for itself and the whole.",
        "bytes",
        Limits("none: allocators fill the memory on purpose; growth is what matters"),
        "memory-slow-growth",
    )
    process = Text("Memory by process", "Device memory of each process.", "bytes", NO_LIMIT)
    mig = Text(
        "MIG instances, memory used",
        "Of the memory of the instance.",
        "percentunit",
        Limits("none, as for whole GPUs"),
    )
    name = "gpudiag_gpu_mig_memory"
    return Row(
        "Memory",
        (
            graph(
                used,
                Query(f"gpudiag_gpu_memory_used_bytes{{{GPU}}}", ONE),
                Query(f"gpudiag_gpu_memory_reserved_bytes{{{GPU}}}", f"{ONE} driver"),
                Query(f"max by (node) (gpudiag_gpu_memory_total_bytes{{{GPU}}})", "{{node}} whole"),
            ),
            graph(
                process,
                Query(
                    f"gpudiag_gpu_process_memory_bytes{{{GPU}}}",
                    f"{ONE} {{{{process}}}} {{{{pid}}}}",
                ),
            ),
            graph(
                mig,
                Query(
                    f"{name}_used_bytes{{{GPU}}} / {name}_total_bytes{{{GPU}}}",
                    f"{ONE} instance {{{{gpu_instance}}}}",
                ),
                top=1,
            ),
        ),
    )


def heat() -> Row:
    """Temperature, power and clocks, and why a clock is low."""
    margin = Limits("0, where the GPU slows itself down", ((0, "green"),), below="red")
    temperature = Limits("none: each model has its own; the margin beside it knows")
    clock = Limits("none: an idle GPU rests; look at the reasons beside it")
    reasons = 'reason!~"idle|app_clocks"'
    hot = "thermal-throttle"
    return Row(
        "Heat, power and clocks",
        (
            graph(
                Text("Temperature", "Core and memory.", "celsius", temperature, hot),
                Query(f"gpudiag_gpu_temperature_celsius{{{GPU}}}", f"{ONE} {{{{sensor}}}}"),
            ),
            graph(
                Text("Margin", "Degrees left before the GPU slows down.", "celsius", margin, hot),
                Query(f"gpudiag_gpu_temperature_margin_celsius{{{GPU}}}", ONE),
                zero=False,
            ),
            graph(
                Text(
                    "Clock, share of the highest", "SM and memory clock.", "percentunit", clock, hot
                ),
                Query(
                    f"gpudiag_gpu_clock_hertz{{{GPU}}} / gpudiag_gpu_clock_max_hertz{{{GPU}}}",
                    f"{ONE} {{{{clock}}}}",
                ),
                top=1,
            ),
            graph(
                Text(
                    "Power and its limit", "Board power.", "watt",
                    Limits("none: at its limit a GPU works as meant"), "power-brake",
                ),
                Query(f"gpudiag_gpu_power_watts{{{GPU}}}", ONE),
                Query(f"max by (node) (gpudiag_gpu_power_limit_watts{{{GPU}}})", "{{node}} limit"),
            ),
            graph(
                Text(
                    "Mean power", "From the energy counter: nothing between two readings is"
                    " missed.", "watt", Limits("none: at its limit a GPU works as meant"),
                ),
                Query(f"rate(gpudiag_gpu_energy_joules_total{{{GPU}}}[$__rate_interval])", ONE),
            ),
            graph(
                Text(
                    "Slowed down", "Share of time by reason, from the driver's own counters.",
                    "percentunit", from_rule(hot, "share"), hot,
                ),
                Query(
                    f"rate(gpudiag_gpu_throttle_seconds_total{{{GPU}}}[$__rate_interval])",
                    f"{ONE} {{{{reason}}}}",
                ),
                top=1,
            ),
            timeline(
                Text(
                    "Reasons for a low clock", "As read; power_cap is normal under full load.",
                    "short", Limits("none: the shares beside tell how much it matters"), hot,
                ),
                Query(
                    f"gpudiag_gpu_throttle_active{{{GPU}, {reasons}}} > 0",
                    f"{ONE} {{{{reason}}}}",
                ),
                words={1: ("active", "orange")},
                width=24,
            ),
        ),
    )  # fmt: skip
