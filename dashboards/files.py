"""The dashboards as files."""

from __future__ import annotations

import json

from gpudiag.dashboards import agent, fleet, incident, memory, node, serving, training

_BOARDS = (node, training, memory, serving, incident, fleet, agent)


def files() -> dict[str, str]:
    """Every generated file by its name, `gpudiag-node.json` and so on."""
    boards = (module.build() for module in _BOARDS)
    return {f"{board['uid']}.json": json.dumps(board, indent=1) + "\n" for board in boards}
