"""Out-of-memory messages as they were seen, one per family, with what they say and imply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_HINT = (
    " If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
)


@dataclass(frozen=True)
class Sample:
    """`fields` in GiB where they are floats."""

    kind: str
    cause: str
    text: str
    fields: dict[str, Any]


SAMPLES = {
    "1.3": Sample(
        "torch",
        "fragmentation",
        "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 1; 11.00 GiB total capacity; "
        "8.00 GiB already allocated; 512.00 MiB free; 2.00 GiB cached)",
        {"device": 1, "total": 11.0, "allocated": 8.0, "unallocated": 2.0, "free": 0.5},
    ),
    "1.12": Sample(
        "torch",
        "driver-refused",
        "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 4.00 GiB total "
        "capacity; 825.00 MiB already allocated; 2.35 GiB free; 900.00 MiB reserved in total by "
        "PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to "
        "avoid fragmentation.  See documentation for Memory Management and "
        "PYTORCH_CUDA_ALLOC_CONF",
        {"requested": 20 << 20, "total": 4.0, "free": 2.35, "unallocated": 75 << 20},
    ),
    "2.0, with a limit": Sample(
        "torch",
        "own-memory-limit",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; "
        "8.00 GiB total capacity; 3.50 GiB already allocated; 4.00 GiB free; 4.00 GiB allowed; "
        "3.50 GiB reserved in total by PyTorch)",
        {"allowed": 4.0, "reserved": 3.5},
    ),
    "2.1": Sample(
        "torch",
        "memory-held-by-others",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 42.00 MiB. GPU 0 has "
        "a total capacty of 47.27 GiB of which 9.38 MiB is free. Process 11 has 20.50 GiB memory "
        "in use. Process 12 has 23.50 GiB memory in use. Including non-PyTorch memory, this "
        "process has 3.14 GiB memory in use. Process 13 has 0 bytes memory in use. Of the "
        "allocated memory 2.92 GiB is allocated by PyTorch, and 34.62 MiB is reserved by PyTorch "
        "but unallocated. If reserved but unallocated memory is large try setting "
        "max_split_size_mb to avoid fragmentation.",
        {"total": 47.27, "own": 3.14, "allocated": 2.92},
    ),
    "2.3, index as a character": Sample(
        "torch",
        "undetermined",
        "CUDA out of memory. Tried to allocate 14.00 MiB. GPU \x00 has a total capacity of "
        "22.00 GiB of which 12.00 MiB is free. Process 9 has 21.90 GiB memory in use. Of the "
        "allocated memory 21.25 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch "
        f"but unallocated.{_HINT}",
        {"device": None, "total": 22.0, "own": None, "allocated": 21.25},
    ),
    "2.13, pools": Sample(
        "torch",
        "fragmentation",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.28 GiB. GPU 3 has a "
        "total capacity of 139.81 GiB of which 7.30 GiB is free. Including non-PyTorch memory, "
        "this process has 132.50 GiB memory in use. Of the allocated memory 115.89 GiB is "
        "allocated by PyTorch, with 2.01 GiB allocated in private pools (e.g., CUDA Graphs), and "
        f"10.53 GiB is reserved by PyTorch but unallocated.{_HINT}",
        {"device": 3, "requested": 9.28, "own": 132.5, "private": 2.01, "unallocated": 10.53},
    ),
    "pools of graphs": Sample(
        "torch",
        "private-pools-stranded",
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 10.74 GiB. "
        "GPU 0 has a total capacity of 47.53 GiB of which 7.86 GiB is free. Of the allocated "
        "memory 36.52 GiB is allocated by PyTorch, with 12.03 GiB allocated in private pools "
        f"(e.g., CUDA Graphs), and 2.59 GiB is reserved by PyTorch but unallocated.{_HINT}",
        {"private": 12.03, "allocated": 36.52},
    ),
    "unknown and a limit": Sample(
        "torch",
        "own-memory-limit",
        "CUDA out of memory. Tried to allocate 3.98 GiB. GPU 0 has a total capacity of 31.84 GiB "
        "of which 16.30 GiB is free. Including non-PyTorch memory, this process has "
        "17179869184.00 GiB memory in use. 17.51 GiB allowed; Of the allocated memory 6.74 GiB is "
        f"allocated by PyTorch, and 7.02 GiB is reserved by PyTorch but unallocated.{_HINT}",
        {"own": None, "unknown": ("own",), "allowed": 17.51, "unallocated": 7.02},
    ),
    "more tensors than memory": Sample(
        "torch",
        "undetermined",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a "
        "total capacity of 79.19 GiB of which 5.00 GiB is free. Of the allocated memory 83.48 GiB "
        "is allocated by PyTorch, with 241.21 MiB allocated in private pools (e.g., CUDA Graphs), "
        "and 30.59 GiB is reserved by PyTorch but unallocated.",
        {"allocated": 83.48, "unallocated": 30.59},
    ),
    "HIP": Sample(
        "torch",
        "fragmentation",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 63.98 GiB of which 1.00 GiB is free. Of the allocated memory 50.00 GiB is "
        "allocated by PyTorch, and 12.00 GiB is reserved by PyTorch but unallocated. If reserved "
        "but unallocated memory is large try setting PYTORCH_HIP_ALLOC_CONF=",
        {"requested": 2.0, "unallocated": 12.0},
    ),
    "NPU": Sample(
        "torch",
        "undetermined",
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 2; 60.97 GiB total "
        "capacity; 57.50 GiB already allocated; 57.50 GiB current active; 1.25 GiB free; "
        "58.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory",
        {"device": 2, "allocated": 57.5, "free": 1.25, "reserved": 58.0},
    ),
    "cudaMallocAsync": Sample(
        "async",
        "undetermined",
        "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of "
        "memory)\nCurrently allocated     : 22.43 GiB\nRequested               : 4.07 GiB\n"
        "Device limit            : 16.00 GiB\nFree (according to CUDA): 0 bytes\n"
        "PyTorch limit (set by user-supplied memory fraction)\n"
        "                        : 17179869184.00 GiB",
        {"allocated": 22.43, "requested": 4.07, "total": 16.0, "free": 0, "unknown": ("allowed",)},
    ),
    "more than there can be": Sample(
        "torch",
        "absurd-request",
        "CUDA out of memory. Tried to allocate more than 1EB memory.",
        {"absurd": True, "requested": None},
    ),
    "NVML assert": Sample(
        "assert",
        "undetermined",
        "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
        '"../c10/cuda/CUDACachingAllocator.cpp":1154, please report a bug to PyTorch.',
        {"requested": None},
    ),
    "driver": Sample(
        "driver",
        "undetermined",
        "torch.AcceleratorError: CUDA error: out of memory\nCUDA kernel errors might be "
        "asynchronously reported at some other API call",
        {"requested": None},
    ),
    "NCCL": Sample(
        "driver",
        "undetermined",
        "node1:411:502 [3] NCCL WARN Cuda failure 2 'out of memory'",
        {"requested": None},
    ),
    "cuBLAS": Sample(
        "library",
        "undetermined",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        {"requested": None},
    ),
    "cuDNN": Sample(
        "library",
        "undetermined",
        "RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        {"requested": None},
    ),
    "host": Sample(
        "host",
        "host-memory-pressure",
        "RuntimeError: [enforce fail at alloc_cpu.cpp:83] . DefaultCPUAllocator: can't allocate "
        "memory: you tried to allocate 34359738368 bytes. Error code 12 (Cannot allocate memory)",
        {"requested": 32.0},
    ),
    "vLLM, not free": Sample(
        "refusal",
        "memory-held-by-others",
        "ERROR 06-30 13:53:19 [core.py:515] ValueError: Free memory on device cuda:0 (31.44/47.38 "
        "GiB) on startup is less than desired GPU memory utilization (0.95, 45.01 GiB). Decrease "
        "GPU memory utilization or reduce GPU memory used by other processes.",
        {"free": 31.44, "total": 47.38, "requested": 45.01},
    ),
    "vLLM, too long": Sample(
        "refusal",
        "sequence-too-long",
        "ValueError: To serve at least one request with the models's max seq len (1048576), "
        "(24.00 GiB KV cache is needed, which is larger than the available KV cache memory "
        "(9.97 GiB). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`",
        {"requested": 24.0, "free": 9.97},
    ),
    "vLLM 0.5, too long": Sample(
        "refusal",
        "sequence-too-long",
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens "
        "that can be stored in KV cache (7344). Try increasing `gpu_memory_utilization`",
        {"requested": None},
    ),
    "vLLM, nothing left": Sample(
        "refusal",
        "replica-does-not-fit",
        "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine.",
        {"requested": None},
    ),
    "SGLang": Sample(
        "refusal",
        "replica-does-not-fit",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
        {"requested": None},
    ),
}
