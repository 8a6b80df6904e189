"""Flight-recorder dumps from bytes to plain objects: pickle or JSON, and nothing of them is run.

A pickle may only build plain objects: every opcode that names a class is refused.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from gpudiag.agent.analysis.log_flight_dump import Dump, dump_of

MAX_BYTES = 256 << 20
"""A dump of 20,000 collectives with their stacks takes some tens of MiB."""

_PICKLE_STARTS = b"\x80}("
_RANK = re.compile(r"(\d{1,6})(?:\.json|\.pickle|\.pkl)?$")


def looks_like_one(head: bytes) -> bool:
    """Whether a file with these first bytes may be a dump, and is no log for people."""
    start = head.lstrip()
    if head[:1] == b"\x80":
        return True
    return start[:1] == b"{" and any(key in head for key in (b'"pg_config"', b'"entries"'))


def opened(path: Path, raw: bytes) -> Dump | None:
    """The dump in `raw`, its rank by the file's name; None where it is none. Never raises."""
    named = _RANK.search(path.name)
    return dump_of(_plain(raw), int(named[1]) if named else None)


def _plain(raw: bytes) -> Mapping[str, Any]:
    try:
        if raw[:1] in _PICKLE_STARTS and not raw.lstrip().startswith(b"{"):
            found = _Plain(io.BytesIO(raw)).load()
        else:
            found = json.loads(raw)
    except Exception:  # The unpickler and the JSON scanner raise nearly every class.
        return {}
    return found if isinstance(found, dict) else {}


class _Plain(pickle.Unpickler):
    """Builds numbers, text, lists, tuples and dicts, and nothing else."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is refused")

    def persistent_load(self, _pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("an outside object is refused")
