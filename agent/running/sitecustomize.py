"""Run by every Python that `gpudiag run` starts: has the hooks attach once torch is imported.

Standard library only, and nothing here may ever keep the command from running.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(_HERE))


class _OnTorch(importlib.abc.MetaPathFinder):
    """Finds torch as everybody would, and attaches the hooks when it has been loaded."""

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and spec.loader is not None:
            _after(spec.loader)
        return spec


def _after(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        execute(module)
        try:
            _attach()
        except Exception as error:
            _say(f"the hooks could not be attached: {error!r}")

    loader.exec_module = exec_module


def _attach() -> None:
    try:
        auto = importlib.import_module("gpudiag.probes.torch.auto")
    except ModuleNotFoundError:
        # Another interpreter than gpudiag's own: the hooks need nothing but torch and these files.
        gpudiag = sys.modules["gpudiag"] = types.ModuleType("gpudiag")
        gpudiag.__path__ = [_ROOT]
        auto = importlib.import_module("gpudiag.probes.torch.auto")
    auto.install()


def _say(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"gpudiag: {text}; the training goes on without them\n")


def _chain() -> None:
    """Run the sitecustomize that this one stands in front of, as Python would have."""
    path = [p for p in sys.path if os.path.abspath(p or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if os.environ.get("GPUDIAG_DISABLE", "") in ("", "0"):
    sys.meta_path.insert(0, _OnTorch())
_chain()
