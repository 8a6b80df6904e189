"""Takes the manifest of an environment; reads files only, imports no package that it lists."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import distributions
from pathlib import Path

from gpudiag.probes.errors import UsageError

VERSION = 1

RELEVANT = re.compile(
    r"(CUDA|NVIDIA|NCCL|TORCH|PYTORCH|UCX|NVSHMEM|XLA|VLLM|SGLANG|HF|OMP|MKL)_\w+"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PATH"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|_KEY$|APIKEY|API_KEY|HEADERS", re.I)
IMAGE = ("IMAGE_DIGEST", "CONTAINER_IMAGE", "GPUDIAG_IMAGE", "SLURM_CONTAINER_IMAGE")
"""Variables that may name the image; a pod has one only where its author hands it down."""

_LIST = (
    "import json;from importlib.metadata import distributions as d;"
    "print(json.dumps({x.metadata['Name']:x.version for x in d() if x.metadata['Name']}))"
)
_LIST_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Manifest:
    """One environment. `packages`: version by name; `gpus`: model by bus address."""

    version: int = VERSION
    node: str = ""
    kernel: str = ""
    python: str = ""
    driver: str = ""
    image: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    gpus: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """As it is saved: one sorted object, so that two can be compared by eye, too."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"


def take(
    environ: Mapping[str, str], python: str = "", proc: Path = Path("/proc/driver/nvidia")
) -> Manifest:
    """What stands here now. `python` is another interpreter whose packages count, else this one's.

    Raises `UsageError` where that interpreter cannot be asked.
    """
    return Manifest(
        node=platform.node(),
        kernel=platform.release(),
        python=python or platform.python_version(),
        driver=_driver(proc / "version"),
        image=next((environ[name] for name in IMAGE if environ.get(name)), ""),
        packages=_packages_of(python) if python else _own_packages(),
        variables=variables(environ),
        gpus=_gpus(proc / "gpus"),
    )


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Those that change what CUDA, NCCL and torch do; of a secret only that it is set."""
    return {
        name: "set, not shown" if SECRET.search(name) else environ[name]
        for name in sorted(environ)
        if RELEVANT.fullmatch(name)
    }


def load(path: Path) -> Manifest:
    """A saved manifest; raises `UsageError` for anything else."""
    try:
        plain = json.loads(path.read_bytes())
        known = {name: plain[name] for name in Manifest.__slots__ if name in plain}
        if not isinstance(plain, dict) or plain.get("version") != VERSION:
            raise ValueError("no manifest of this version")
        return Manifest(**known)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"cannot read the manifest {path}: {error}; save one with `gpudiag doctor --save`"
        ) from error


def _own_packages() -> dict[str, str]:
    found = {str(d.metadata["Name"]): d.version for d in distributions() if d.metadata["Name"]}
    return dict(sorted(found.items()))


def _packages_of(python: str) -> dict[str, str]:
    try:
        done = subprocess.run(
            [python, "-c", _LIST],
            capture_output=True,
            timeout=_LIST_SECONDS,
            check=True,
            env={k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH")},
        )
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise UsageError(f"cannot ask {python} for its packages: {error}") from error
    return dict(sorted(found.items()))


def _driver(path: Path) -> str:
    try:
        found = re.search(r"(?:Module|x86_64|aarch64)\s+(\d+\.\d+(?:\.\d+)?)", path.read_text())
    except OSError:
        return ""
    return found[1] if found else ""


def _gpus(folder: Path) -> dict[str, str]:
    found = {}
    for file in sorted(folder.glob("*/information")):
        try:
            model = re.search(r"^Model:\s*(.+)$", file.read_text(), re.M)
        except OSError:
            continue
        found[file.parent.name] = model[1].strip() if model else ""
    return found
