"""The panels of a node's GPU faults: links, errors, repairs, and the driver itself."""

from __future__ import annotations

from gpudiag.dashboards.common import YES_NO_BAD, YES_NO_GOOD, Row
from gpudiag.dashboards.gpus import ANY, ONE
from gpudiag.dashboards.marks import risen
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

_FABRIC = {
    0: ("not supported", "text"),
    1: ("not started", "red"),
    2: ("in progress", "orange"),
    3: ("completed", "green"),
}


def links() -> Row:
    """PCIe and NVLink: traffic, width, errors."""
    pcie, nvlink = "gpudiag_gpu_pcie", "gpudiag_gpu_nvlink"
    whole = Limits("1 under load; an idle GPU lets its link rest", ((1, "green"),), below="orange")
    return Row(
        "Links",
        (
            graph(
                Text("PCIe traffic", "Received and sent.", "Bps", NO_LIMIT, "pcie-degraded"),
                Query(f"rate({pcie}_rx_bytes_total{{{GPU}}}[$__rate_interval])", f"{ONE} in"),
                Query(f"rate({pcie}_tx_bytes_total{{{GPU}}}[$__rate_interval])", f"{ONE} out"),
            ),
            graph(
                Text(
                    "PCIe link, share of the best", "Generation and lanes in use over what GPU and"
                    " slot can do.", "percentunit", whole, "pcie-degraded",
                ),
                Query(
                    f"{pcie}_link_generation{{{GPU}}} / {pcie}_link_generation_max{{{GPU}}}",
                    f"{ONE} generation",
                ),
                Query(
                    f"{pcie}_link_width{{{GPU}}} / {pcie}_link_width_max{{{GPU}}}", f"{ONE} lanes"
                ),
                top=1,
            ),
            graph(
                Text(
                    "PCIe replays", "Packets sent again, per second.", "cps",
                    Limits("none: a burst is corrected in passing; minutes of them are a fault"),
                    "pcie-degraded",
                ),
                Query(f"rate({pcie}_replays_total{{{GPU}}}[$__rate_interval])", ONE),
            ),
            graph(
                Text("NVLink traffic", "All links of a GPU.", "Bps", NO_LIMIT, "nvlink-errors"),
                Query(f"rate({nvlink}_rx_bytes_total{{{GPU}}}[$__rate_interval])", f"{ONE} in"),
                Query(f"rate({nvlink}_tx_bytes_total{{{GPU}}}[$__rate_interval])", f"{ONE} out"),
            ),
            graph(
                Text(
                    "NVLinks down", "Links that are not active.", "short",
                    Limits("1, if it was up before: some boards leave links unused", ANY),
                    "nvlink-errors",
                ),
                Query(f"sum by (node, gpu) (1 - {nvlink}_up{{{GPU}}})", ONE),
            ),
            graph(
                Text(
                    "NVLink errors", "Per second, all links of a GPU.", "cps",
                    from_rule("nvlink-errors", "crc_rate"), "nvlink-errors",
                ),
                Query(
                    f"sum by (node, gpu, kind)"
                    f" (rate({nvlink}_errors_total{{{GPU}}}[$__rate_interval]))",
                    f"{ONE} {{{{kind}}}}",
                ),
            ),
        ),
    )  # fmt: skip


def errors() -> Row:
    """What the GPUs themselves report as broken."""
    repairs = {
        "row_remap_pending": "row remap waits for a reset",
        "row_remap_failed": "no spare row left",
        "retired_pages_pending": "page waits to be retired",
        "sram_ecc_threshold_exceeded": "SRAM errors past the limit",
    }
    return Row(
        "Faults",
        (
            graph(
                Text(
                    "XIDs", "By code; those still in the kernel's log when an agent starts count"
                    " as new.", "short", Limits("1: the code's section says what it means", ANY),
                    "gpu-xid",
                ),
                Query(risen(f"gpudiag_gpu_xid_errors_total{{{GPU}}}"), f"{ONE} XID {{{{xid}}}}"),
            ),
            graph(
                Text(
                    "Uncorrectable memory errors", "Since the last look, without those of old.",
                    "short", Limits("1: the process that used the memory is lost", ANY),
                    "ecc-uncorrectable",
                ),
                Query(
                    "increase(gpudiag_gpu_ecc_errors_total"
                    f'{{{GPU}, kind="uncorrected", scope="volatile"}}[$__rate_interval])',
                    ONE,
                ),
            ),
            graph(
                Text(
                    "Corrected memory errors", "Per second.", "cps",
                    Limits("none: single ones are everyday"), "row-remap-pending",
                ),
                Query(
                    "rate(gpudiag_gpu_ecc_errors_total"
                    f'{{{GPU}, kind="corrected", scope="volatile"}}[$__rate_interval])',
                    ONE,
                ),
            ),
            timeline(
                Text(
                    "Memory repair", "What the driver wants to repair or cannot.", "short",
                    Limits("any: a reset or a replacement is due"), "row-remap-pending",
                ),
                *(
                    Query(f"gpudiag_gpu_{name}{{{GPU}}}", f"{ONE} {words}")
                    for name, words in repairs.items()
                ),
                words=YES_NO_BAD,
            ),
            timeline(
                Text(
                    "NVLink fabric", "Registration of the GPU with its switches.", "short",
                    Limits("all but completed keep NCCL from starting, where there are switches"),
                    "fabric-manager-down",
                ),
                Query(f"gpudiag_gpu_fabric_state{{{GPU}}}", ONE),
                words=_FABRIC,
            ),
        ),
    )  # fmt: skip


def driver() -> Row:
    """Whether the driver answers at all."""
    versions = {"node": "node", "nvml": "library", "kernel_module": "kernel module"}
    return Row(
        "Driver",
        (
            timeline(
                Text(
                    "Driver answers", "Whether the driver's library can be used.", "short",
                    Limits("no: nothing is known of the GPUs"), "driver-mismatch",
                ),
                Query(f"gpudiag_nvml_up{{{NODE}}}", "{{node}}"),
                words=YES_NO_GOOD,
            ),
            timeline(
                Text(
                    "Driver hangs", "A call that does not return and cannot be cancelled.",
                    "short", Limits("yes: only a reboot frees it"), "nvml-wedged",
                ),
                Query(f"gpudiag_nvml_wedged{{{NODE}}}", "{{node}}"),
                words=YES_NO_BAD,
            ),
            number(
                Text(
                    "NVML return code", "Of the start or the last failed call.", "none",
                    Limits("1: all but 0 are errors", ANY), "driver-mismatch",
                ),
                Query(f"gpudiag_nvml_return_code{{{NODE}}}", "{{node}}"),
                width=6,
            ),
            listing(
                Text(
                    "Driver versions", "They must be the same.", "short",
                    Limits("none: these are names"), "driver-mismatch",
                ),
                Query(f"gpudiag_driver_info{{{NODE}}}", "{{node}}"),
                names=versions,
                width=18,
            ),
        ),
    )  # fmt: skip
