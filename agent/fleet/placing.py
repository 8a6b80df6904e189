"""The labels by which nodes belong together, out of whatever labels their series carry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from gpudiag.agent.history.labels import EXPORTED, REPLICAS
from gpudiag.agent.history.nodes import NAMING

_NO_PLACE = frozenset(
    {"instance", "job", "pod", "container", "endpoint", "namespace", "service", "uid", "revision"}
    | {"internal_ip", "provider_id", "system_uuid", "pod_cidr", "python", "__name__"}
    | REPLICAS
    | set(NAMING)
)
"""Labels that name one node or its scrape, not what several have in common."""


def placed(rows: Iterable[tuple[str, Mapping[str, str]]]) -> dict[str, dict[str, str]]:
    """The labels of each node that have one value on all of its (node, labels): not its GPUs'."""
    seen: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for node, labels in rows:
        for name, value in labels.items():
            if value and name.removeprefix(EXPORTED) not in _NO_PLACE:
                seen[node][name].add(value)
    return {
        node: {name: min(values) for name, values in by_name.items() if len(values) == 1}
        for node, by_name in seen.items()
    }
