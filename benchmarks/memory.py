"""Where the agent's memory goes: resident MiB after the imports it makes, step by step."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.check import Check

STEPS = (
    "sys",
    "asyncio",
    "msgspec",
    "yaml",
    "numpy",
    "psutil",
    "uvicorn",
    "starlette.applications",
    "jinja2",
    "gpudiag.agent.rules",
    "gpudiag.agent.exporters.app",
    "gpudiag.agent.daemon",
)


def measure() -> list[Check]:
    before, checks = 0.0, []
    for number, step in enumerate(STEPS, start=1):
        now = _resident(STEPS[:number])
        checks.append(Check(f"  after import {step}", now, "MiB", note=f"+{now - before:.1f}"))
        before = now
    return checks


def _resident(modules: tuple[str, ...]) -> float:
    script = f"import {', '.join(modules)}; print(open('/proc/self/statm').read().split()[1])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    return int(done.stdout) * 4096 / 2**20
