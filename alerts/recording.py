"""The recording rules by which a view of a whole fleet costs a server little."""

from __future__ import annotations

from typing import Any

from gpudiag.agent.fleet.queries import RECORDED

INTERVAL = "1m"


def group() -> dict[str, Any]:
    """One figure a node or job, a minute; `gpudiag fleet` reads them where they are."""
    rules = [{"record": rule.name, "expr": rule.expr} for rule in RECORDED]
    return {"name": "gpudiag-fleet", "interval": INTERVAL, "rules": rules}
