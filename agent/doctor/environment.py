"""Doctor's lines about the environment: the variables that change what CUDA, NCCL and torch do."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpudiag.agent.doctor.report import Line
from gpudiag.probes.manifest.taking import SECRET

AREA = "environment"
MAX_VALUE = 200

_RELEVANT = re.compile(
    r"(CUDA|NVIDIA|NCCL|TORCH|PYTORCH|UCX|NVSHMEM|GPUDIAG|XLA|VLLM|SGLANG)_\w+"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|OMP_NUM_THREADS|MKL_NUM_THREADS|WORLD_SIZE|LOCAL_RANK|RANK"
    r"|MASTER_ADDR|MASTER_PORT|SLURM_JOB_ID"
)
_CREDENTIALS = re.compile(r"(\w+://)[^/@\s]+@")

_STRANGE = (
    ("CUDA_VISIBLE_DEVICES", r"\s*(-1)?\s*", "hides every GPU from CUDA: unset it"),
    ("NVIDIA_VISIBLE_DEVICES", r"none|void|", "gives this container no GPU: set it to all"),
    ("CUDA_LAUNCH_BLOCKING", "1", "makes every kernel launch wait: for debugging only"),
    ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "switches the allocator's cache off: very slow"),
    ("NCCL_P2P_DISABLE", "1", "keeps NCCL off NVLink and PCIe peer access"),
    ("NCCL_SHM_DISABLE", "1", "keeps NCCL off shared memory inside the node"),
    ("NCCL_IB_DISABLE", "1", "keeps NCCL off InfiniBand: traffic goes over TCP"),
    ("NCCL_NET_GDR_LEVEL", "LOC|0", "switches GPUDirect RDMA off"),
    ("NCCL_DEBUG", "TRACE", "logs every call: costs speed and disk"),
    (
        "OMP_NUM_THREADS",
        "1",
        "is torchrun's default: slow where the CPU has work to do",
    ),
    ("LD_LIBRARY_PATH", r".*/stubs(/|:|$).*", "may load the stub libcuda: take /stubs out"),
)
"""Variable, value, what follows from it. Sources: CUDA, NCCL and PyTorch documentation."""


def lines(environ: Mapping[str, str]) -> list[Line]:
    """One line per relevant variable that is set; secrets are named, never shown."""
    found = [_line(name, environ[name]) for name in sorted(environ) if _RELEVANT.fullmatch(name)]
    return found or [Line(AREA, "variables", "ok", "none of CUDA, NCCL or PyTorch is set")]


def _line(name: str, value: str) -> Line:
    shown = _shown(name, value)
    for variable, pattern, meaning in _STRANGE:
        if name == variable and re.fullmatch(pattern, value):
            return Line(AREA, name, "note", shown, f"It {meaning}.")
    return Line(AREA, name, "ok", shown)


def _shown(name: str, value: str) -> str:
    if SECRET.search(name):
        return "set, not shown"
    plain = _CREDENTIALS.sub(r"\1***@", value)
    return plain if len(plain) <= MAX_VALUE else plain[:MAX_VALUE] + "…"
