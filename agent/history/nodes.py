"""Which node each series tells of, from whatever labels a scrape left on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpudiag.agent.history.labels import EXPORTED, Target, target
from gpudiag.probes import Labels

NAMING = ("node", "Hostname", "hostname", "nodename", "kubernetes_node", "host")
"""Labels that name a node, the surest first; as the exporter wrote it (`exported_...`) or not."""

UNNAMED = "all"
"""The one node of series that say nothing of where they come from."""


@dataclass(frozen=True, slots=True)
class Places:
    """What is known of targets and pods: whose node is which."""

    targets: Mapping[Target, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)
    pods: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def node(self, labels: Labels) -> str:
        """The node of a series: what it says itself, else its pod, its target or its address."""
        named = dict(labels)
        said = _said(named)
        if said:
            return said
        for prefix in (EXPORTED, ""):
            pod = named.get(f"{prefix}namespace", ""), named.get(f"{prefix}pod", "")
            if pod in self.pods:
                return self.pods[pod]
        one = target(labels)
        host = host_of(one[1])
        return self.targets.get(one) or self.hosts.get(host) or host or UNNAMED


def places(series: Iterable[tuple[str, Labels]], pods: Iterable[Labels] = ()) -> Places:
    """Learn from all series, and from those of `kube_pod_info`.

    A target whose series all name one node is that node's, and so are other targets at the same
    address, if no second node is there.
    """
    said: defaultdict[Target, set[str]] = defaultdict(set)
    for _, labels in series:
        name = _said(dict(labels))
        if name:
            said[target(labels)].add(name)
    said.pop(("", ""), None)
    targets = {one: next(iter(names)) for one, names in said.items() if len(names) == 1}
    at: defaultdict[str, set[str]] = defaultdict(set)
    for (_, instance), names in said.items():
        at[host_of(instance)] |= names
    hosts = {host: next(iter(names)) for host, names in at.items() if len(names) == 1}
    return Places(targets, hosts, _pods(pods))


def host_of(instance: str) -> str:
    """The address without its port: `10.0.0.5:9400`, `[fd00::5]:9400`, `https://n1:9400/metrics`."""
    bare = instance.partition("://")[2] or instance
    bare = bare.partition("/")[0]
    host, colon, port = bare.rpartition(":")
    return host.strip("[]") if colon and port.isdigit() else bare


def _pods(infos: Iterable[Labels]) -> dict[tuple[str, str], str]:
    found = {}
    for labels in infos:
        named = dict(labels)
        # Without honor_labels the pod's own labels are the exported ones.
        pod = named.get("exported_pod") or named.get("pod", "")
        namespace = named.get("exported_namespace") or named.get("namespace", "")
        node = named.get("exported_node") or named.get("node", "")
        if pod and node:
            found[namespace, pod] = node
    return found


def _said(named: Mapping[str, str]) -> str:
    return next(
        (
            named[prefix + name]
            for name in NAMING
            for prefix in (EXPORTED, "")
            if named.get(prefix + name)
        ),
        "",
    )
