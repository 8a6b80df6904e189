"""The loop of the examples, on a stand-in for a device allocator: what this process has grown by.

`ALREADY` are the bytes that it begins with, as a job does that has run for long; a start after the
first begins with few, as a fresh process does. Allocator snapshots are empty, and allocations
cannot be recorded.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import torch

LOOP = Path(__file__).parents[3] / "deploy" / "examples" / "hf_style_loop.py"
FRESH = 60 << 20


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    again = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) > 0
    base = (FRESH if again else int(os.environ["ALREADY"])) - resident()

    def stats() -> dict[str, Any]:
        held = {"all": {"current": base + resident(), "peak": base + resident()}}
        return {"allocated_bytes": held, "reserved_bytes": held}

    cuda: Any = torch.cuda
    compiled: Any = torch._C
    compiled._cuda_memoryStats = stats
    cuda.memory_stats_as_nested_dict = stats
    cuda.is_initialized = lambda: True
    cuda.memory._snapshot = lambda: {"segments": [], "device_traces": []}
    del cuda.memory._record_memory_history
    sys.path.insert(0, str(LOOP.parent))
    runpy.run_path(str(LOOP), run_name="__main__")


if __name__ == "__main__":
    main()
