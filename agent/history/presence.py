"""Which exporters a server knows, what can be judged from them, and which field would tell more."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from gpudiag.agent.history.listing import POD_INFO, Listing
from gpudiag.agent.history.names import OURS
from gpudiag.probes.catalog.dialects import Dialect, dialects

TITLES = {
    "gpudiag": "gpudiag",
    "dcgm": "dcgm-exporter",
    "nvidia_gpu_exporter": "nvidia_gpu_exporter",
    "nvitop": "nvitop-exporter",
    "node_exporter": "node_exporter",
    "kube_state_metrics": "kube-state-metrics",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tgi": "TGI",
    "triton": "Triton",
    "dynamo": "Dynamo",
    "ray_serve": "Ray Serve",
}

NEEDS: Mapping[str, tuple[str, ...]] = {
    "thermal-throttle": ("gpu_throttle_active", "gpu_throttle_seconds_total"),
    "power-brake": ("gpu_throttle_active", "gpu_throttle_seconds_total"),
    "gpu-xid": ("gpu_xid_errors_total",),
    "ecc-uncorrectable": ("gpu_ecc_errors_total",),
    "row-remap-pending": ("gpu_row_remap_pending",),
    "row-remap-failed": ("gpu_row_remap_failed",),
    "driver-reset-required": ("gpu_recovery_action",),
    "pcie-degraded": (
        "gpu_pcie_link_generation",
        "gpu_pcie_link_width",
        "gpu_pcie_replays_total",
    ),
    "nvlink-errors": ("gpu_nvlink_errors_total", "gpu_nvlink_up"),
    "profiling-source-broken": ("gpu_sm_active_ratio",),
    "memory-slow-growth": ("gpu_memory_used_bytes", "torch_allocated_bytes"),
    "gpu-lost": ("gpu_temperature_celsius", "gpu_utilization_ratio", "gpu_power_watts"),
    "gpu-count-low": ("gpus",),
    "cpu-pressure": ("host_pressure_ratio",),
    "host-memory-pressure": ("host_memory_available_bytes", "host_pressure_ratio"),
    "disk-watermark": ("filesystem_available_bytes",),
    "network-link-flapping": ("network_carrier_changes_total", "ib_link_downed_total"),
    "straggler": ("train_step_seconds",),
    "multi-gpu-underperforms": ("train_step_seconds",),
    "loss-abnormal": ("train_loss",),
    "training-interrupted": ("train_steps_total",),
    "checkpoint-and-storage": ("checkpoint_saves_total", "train_checkpoint_seconds"),
    "rl-phase-imbalance": ("train_phase_seconds",),
    "fragmentation": ("torch_reserved_bytes",),
    "serving-stalled": ("serving_requests_running", "serving_requests_waiting"),
    "serving-latency-high": ("serving_ttft_seconds_bucket", "serving_request_seconds_bucket"),
    "serving-request-jitter": ("serving_ttft_seconds_bucket", "serving_request_seconds_bucket"),
    "serving-timeouts": ("serving_requests_total",),
    "serving-memory-growth": ("serving_kv_cache_usage_ratio",),
    "output-quality-abnormal": ("canary_similarity_ratio", "serving_nonfinite_total"),
    "not-ready": ("serving_ready", "canary_ok"),
    "startup-incomplete": ("train_info",),
    "startup-oom": ("torch_ooms_total",),
    "mixed-workload-contention": ("torch_alloc_retries_total", "serving_preemptions_total"),
    "fabric-manager-down": ("gpu_fabric_state",),
    "driver-mismatch": ("nvml_return_code",),
    "nvml-wedged": ("nvml_wedged",),
}
"""Metrics (without `gpudiag_`) of which a rule needs one at least before it can say anything."""

EVENTS_ALONE = ("crash-after-deploy", "replica-does-not-fit")
"""Told by log lines, exits and the manifest: no series has them, whoever records it."""

GPU = ("gpu_temperature_celsius", "gpu_utilization_ratio", "gpu_power_watts", "gpu_clock_hertz")
_SINCE_4_6 = frozenset(
    "DCGM_FI_" + name
    for name in (
        "DEV_GPU_TEMP_CELSIUS",
        "DEV_MEMORY_TEMP_CELSIUS",
        "DEV_GPU_TEMP_MARGIN_CELSIUS",
        "DEV_BOARD_POWER_WATTS",
        "DEV_GPU_UTIL_RATIO",
        "DEV_PCIE_REPLAY_TOTAL",
        "DEV_XID_ERROR",
        "DEV_ROW_REMAP_FAILED",
        "DEV_GPU_RECOVERY_ACTION",
        "PROF_SM_UTIL_RATIO",
        "PROF_PIPE_TENSOR_UTIL_RATIO",
        "PROF_DRAM_UTIL_RATIO",
    )
)


@dataclass(frozen=True, slots=True)
class Gap:
    """A symptom that cannot be told on these nodes. `fields` is what an exporter there could give
    if it were told to, empty where none of them can.
    """

    symptom: str
    nodes: tuple[str, ...]
    fields: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """What to switch on, as one line."""
        if self.fields:
            return f"switch on {' or '.join(self.fields)}"
        return "needs gpudiag's agent on the nodes"


@dataclass(frozen=True, slots=True)
class Presence:
    """Exporters by title with the number of nodes they are on; what is judged, what cannot be."""

    exporters: Mapping[str, int]
    judged: tuple[str, ...]
    gaps: tuple[Gap, ...]
    spellings: tuple[str, ...] = ()

    @property
    def absent(self) -> tuple[str, ...]:
        """What it would befall was not seen: no training job, no server, no GPU."""
        asked = {*self.judged, *(gap.symptom for gap in self.gaps)}
        return tuple(symptom for symptom in NEEDS if symptom not in asked)


def presence(listing: Listing) -> Presence:
    """Look through what a server has."""
    on: Counter[str] = Counter()
    judged: set[str] = set()
    lacking: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for node in listing.nodes:
        here = _exporters(node.names)
        on.update(here)
        ours = _ours(node.names)
        for symptom, needs in NEEDS.items():
            if not ours.isdisjoint(OURS + need for need in needs):
                judged.add(symptom)
            elif _may_be_asked(symptom, ours):
                lacking[symptom, _fields(symptom, here)].append(node.name)
    if POD_INFO in listing.names:
        on["kube_state_metrics"] = len(listing.nodes)
    return Presence(
        {TITLES.get(name, name): count for name, count in sorted(on.items())},
        tuple(symptom for symptom in NEEDS if symptom in judged),
        tuple(Gap(symptom, tuple(nodes), fields) for (symptom, fields), nodes in lacking.items()),
        _spellings(listing),
    )


@lru_cache(maxsize=4096)
def _exporters(names: frozenset[str]) -> tuple[str, ...]:
    ours = ("gpudiag",) if any(name.startswith(OURS) for name in names) else ()
    return ours + tuple(d.name for d in dialects() if not names.isdisjoint(d.meanings))


@lru_cache(maxsize=4096)
def _ours(names: frozenset[str]) -> frozenset[str]:
    """Our metrics that the names tell."""
    told = {one.to for d in dialects() for name in names for one in d.meanings.get(name, ())}
    told |= {x.to for d in dialects() for x in d.derived if set(x.of) <= told}
    return frozenset(told) | {name for name in names if name.startswith(OURS)}


def _may_be_asked(symptom: str, ours: frozenset[str]) -> bool:
    """Whether its subject is there at all: a GPU for what befalls GPUs, else not applicable."""
    about_gpus = NEEDS[symptom][0].startswith(("gpu", "nvml"))
    return about_gpus and not ours.isdisjoint(OURS + name for name in GPU)


def _fields(symptom: str, exporters: Iterable[str]) -> tuple[str, ...]:
    here = set(exporters)
    return tuple(
        _spelled(dialect, need)
        for need in NEEDS[symptom]
        for dialect in dialects()
        if dialect.name in here and OURS + need in dialect.tells()
    )


def _spelled(dialect: Dialect, need: str) -> str:
    """`DCGM_FI_DEV_XID_ERRORS (from 4.6 on DCGM_FI_DEV_XID_ERROR)`."""
    ordered = {
        name: one.order
        for name, meanings in dialect.meanings.items()
        for one in meanings
        if one.to == OURS + need
    }
    # A counter may be spelled with `_total` as well, which is no field.
    fields = (
        name for name in ordered if name.removesuffix("_total") not in ordered.keys() - {name}
    )
    first, *others = sorted(fields, key=lambda name: (name in _SINCE_4_6, ordered[name]))
    newer = f" (from 4.6 on {others[-1]})" if others and others[-1] in _SINCE_4_6 else ""
    return first + newer


def _spellings(listing: Listing) -> tuple[str, ...]:
    """What was noticed of how things are written there."""
    said = []
    new = listing.names & _SINCE_4_6
    old = {name for name in listing.names if name.startswith("DCGM_FI_")} - new
    if new:
        said.append(f"dcgm-exporter with names from 4.6 on{' and older ones' if old else ''}")
    elif old:
        said.append("dcgm-exporter with names up to 4.5")
    if listing.exported:
        said.append("scraped without honor_labels: exported_... labels are the exporter's own")
    if listing.twice:
        said.append(f"{listing.twice} series are scraped twice: each is judged once")
    return tuple(said)
