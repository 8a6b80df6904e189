"""The series of one node of a made-up fleet over a stretch of time, with its faults in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

import numpy as np
import numpy.typing as npt

from benchmarks import fleet_faults as faults
from benchmarks.fleet_faults import GPUS, NODES_A_JOB, Fault

Floats = npt.NDArray[np.float64]
Made = tuple[str, dict[str, str], Floats]

GIB = 1024.0**3
MIB = 1024.0**2
STEP_SECONDS = 0.5
SLOWER = 0.12
COMM = 0.03
THROTTLES = ("hw_thermal", "sw_thermal", "power_brake", "power_cap", "hw_slowdown")


class Node:
    """One node. `at` (n,) are seconds from the fleet's start; each stretch has its own noise."""

    def __init__(self, number: int, nodes: int, all_faults: Iterable[Fault], seed: int) -> None:
        self.number, self._nodes, self._seed = number, nodes, seed
        self._job = faults.job_of(number)
        peers = [f for f in all_faults if faults.job_of(f.node) == self._job]
        self._mine = [f for f in peers if f.node == number]
        self._slowing = [f for f in peers if f.kind in ("hot", "slow")]

    def uuid(self, gpu: int) -> str:
        return f"GPU-{self.number:08d}-5c2f-4a6e-9a51-{gpu:012d}"

    def series(self, at: Floats) -> Iterator[Made]:
        """As gpudiag's agent names them, without what a scrape adds."""
        noise = np.random.default_rng((self._seed, self.number, int(at[0])))
        for gpu in range(GPUS):
            who = {"uuid": self.uuid(gpu), "gpu": str(gpu)}
            info = {"name": "NVIDIA H100 80GB HBM3", "driver": self._driver(), **who}
            yield "gpudiag_gpu_info", info, np.ones(len(at))
            yield from ((n, e | who, v) for n, e, v in self._gpu(gpu, at, noise))
            yield from self._rank(gpu, at, noise)
        yield from self._host(at, noise)

    def findings(self, at: Floats) -> Iterator[Made]:
        """What an agent on this node would say of its faults, and of itself."""
        yield "gpudiag_build_info", {"version": "0.1.0"}, np.ones(len(at))
        for fault in self._mine:
            lasts = np.where(self._during(fault, at), 0.9, np.nan)
            if fault.kind == "slow" or np.isnan(lasts).all():
                continue
            severity = "critical" if fault.kind in ("xid", "ecc") else "warning"
            cause = "xid-94" if fault.kind == "xid" else fault.symptom
            said = {"symptom": fault.symptom, "cause": cause, "severity": severity}
            said["subject"] = f"uuid={self.uuid(fault.gpu)}"
            yield "gpudiag_finding_active", said, lasts

    def _driver(self) -> str:
        # By lot: faults go by the node's number, and nothing may seem to come from the driver.
        return Random(self.number).choice(("550.54.15", "570.86.10"))

    def _during(self, fault: Fault, at: Floats) -> npt.NDArray[np.bool_]:
        return (at >= fault.start) & (at < fault.end)

    def _has(self, kind: str, gpu: int, at: Floats) -> npt.NDArray[np.bool_]:
        found = np.zeros(len(at), bool)
        for fault in self._mine:
            if fault.kind == kind and fault.gpu == gpu:
                found |= self._during(fault, at)
        return found

    def _gpu(self, gpu: int, at: Floats, noise: np.random.Generator) -> Iterator[Made]:
        wobble = noise.normal(0.0, 1.0, len(at))
        hot = self._has("hot", gpu, at)
        flat = np.ones(len(at))
        since = next((f.start for f in self._mine if (f.kind, f.gpu) == ("grows", gpu)), None)
        grown = np.clip(at - since, 0.0, None) if since is not None else 0.0 * flat
        used = 40 * GIB + 20 * MIB * np.round(wobble, 1) + grown * 2e9 / 3600.0
        yield (
            "gpudiag_gpu_temperature_celsius",
            {"sensor": "core"},
            np.where(hot, 92.0, 61 + wobble),
        )
        yield "gpudiag_gpu_utilization_ratio", {}, np.clip(0.96 + 0.01 * wobble, 0.0, 1.0)
        yield "gpudiag_gpu_power_watts", {}, np.where(hot, 420.0, 640 + 8 * wobble)
        yield "gpudiag_gpu_power_limit_watts", {}, 700 * flat
        yield "gpudiag_gpu_clock_hertz", {"clock": "sm"}, np.where(hot, 1.2e9, 1.98e9)
        yield "gpudiag_gpu_clock_hertz", {"clock": "memory"}, 2.6e9 * flat
        yield "gpudiag_gpu_memory_used_bytes", {}, used.round()
        yield "gpudiag_gpu_memory_total_bytes", {}, 80 * GIB * flat
        yield "gpudiag_gpu_pcie_link_generation", {}, 5 * flat
        yield "gpudiag_gpu_pcie_link_generation_max", {}, 5 * flat
        yield "gpudiag_gpu_pcie_link_width", {}, np.where(self._has("narrow", gpu, at), 4.0, 16.0)
        yield "gpudiag_gpu_pcie_link_width_max", {}, 16 * flat
        yield "gpudiag_gpu_pcie_replays_total", {}, 0 * flat
        yield "gpudiag_gpu_row_remap_pending", {}, 0 * flat
        yield "gpudiag_gpu_row_remap_failed", {}, 0 * flat
        ecc = {"kind": "uncorrected", "scope": "volatile"}
        yield "gpudiag_gpu_ecc_errors_total", ecc, self._has("ecc", gpu, at).astype(float)
        if self._has("xid", gpu, at).any():
            xid = np.where(self._has("xid", gpu, at), 1.0, np.nan)
            yield "gpudiag_gpu_xid_errors_total", {"xid": "94"}, xid
        for reason in THROTTLES:
            held = hot.astype(float) if reason == "hw_thermal" else 0 * flat
            yield "gpudiag_gpu_throttle_active", {"reason": reason}, held

    def _rank(self, gpu: int, at: Floats, noise: np.random.Generator) -> Iterator[Made]:
        first = self.number // NODES_A_JOB * NODES_A_JOB
        world = (min(first + NODES_A_JOB, self._nodes) - first) * GPUS
        rank = (self.number - first) * GPUS + gpu
        who = {"job": self._job, "rank": str(rank)}
        more = np.zeros(len(at))
        for fault in self._slowing:
            more = np.where(self._during(fault, at), SLOWER * STEP_SECONDS, more)
        mine = np.zeros(len(at))
        for fault in self._slowing:
            if fault.node == self.number and fault.gpu in (gpu, -1):
                mine = np.where(self._during(fault, at), SLOWER * STEP_SECONDS, mine)
        jitter = noise.normal(0.0, 0.002, len(at))
        step = STEP_SECONDS + more
        info = {"local_rank": str(gpu), "world_size": str(world), "uuid": self.uuid(gpu)}
        yield "gpudiag_train_info", info | who, np.ones(len(at))
        yield "gpudiag_train_steps_total", who, np.floor(1000 + at / STEP_SECONDS)
        yield "gpudiag_train_step_seconds", who, step
        compute = STEP_SECONDS - COMM + mine + jitter
        yield "gpudiag_train_compute_seconds", who, compute
        yield "gpudiag_train_comm_wait_seconds", who, step - compute
        yield "gpudiag_train_data_wait_seconds", who, 0.001 + np.abs(jitter) / 10
        yield "gpudiag_train_loss", who, 2.0 + np.exp(-at / 86_400.0) + jitter
        yield "gpudiag_torch_allocated_bytes", who, 36 * GIB * np.ones(len(at))
        yield "gpudiag_torch_reserved_bytes", who, 38 * GIB * np.ones(len(at))

    def _host(self, at: Floats, noise: np.random.Generator) -> Iterator[Made]:
        flat = np.ones(len(at))
        yield "gpudiag_gpus", {}, GPUS * flat
        yield "gpudiag_gpus_expected", {}, GPUS * flat
        yield (
            "gpudiag_host_cpu_utilization_ratio",
            {},
            np.clip(noise.normal(0.3, 0.02, len(at)), 0, 1),
        )
        yield "gpudiag_host_memory_total_bytes", {}, 2048 * GIB * flat
        yield (
            "gpudiag_host_memory_available_bytes",
            {},
            1500 * GIB + 1e9 * noise.normal(size=len(at)),
        )
        for resource in ("cpu", "memory", "io"):
            pressure = np.abs(noise.normal(0.0, 0.003, len(at)))
            yield "gpudiag_host_pressure_ratio", {"resource": resource, "kind": "some"}, pressure
        yield "gpudiag_filesystem_size_bytes", {"mountpoint": "/"}, 900 * GIB * flat
        yield "gpudiag_filesystem_available_bytes", {"mountpoint": "/"}, 600 * GIB * flat
