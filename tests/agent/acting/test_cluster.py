"""From the configuration to what the cluster gives, and where it gives nothing."""

from __future__ import annotations

import msgspec
import pytest

from gpudiag.agent import config
from gpudiag.agent.acting.cluster import Around, Cluster, cluster_for
from gpudiag.probes.errors import UsageError
from tests.agent.actions.test_guard import plan
from tests.kubepods import path_of, pod
from tests.tools import needs

pytestmark = needs("openssl", "openssl")


def built(cluster, tmp_path, text, *, role="node", environ=None):
    folder = f", service_account: {cluster.folder}"
    whole = f"node: {{role: {role}}}\nkubernetes: {{{text}{folder}}}"
    read = config.parse(whole, "g.yaml").kubernetes
    around = Around("n1", role, "chat", lambda _: [], print)
    environ = cluster.environment | (environ or {}) if environ != {} else {}
    return cluster_for(read, around, tmp_path, lambda: 1_800_000_000.0, environ)


def test_nothing_is_used_that_is_not_named(cluster, tmp_path):
    assert built(cluster, tmp_path, "enabled: true") == Cluster()
    assert built(cluster, tmp_path, "enabled: false, use: [events, lease]") == Cluster()
    made = built(cluster, tmp_path, "use: [mark_node]")
    assert [lever.name for lever in made.levers] == ["mark_node"]
    assert (made.mirrors, made.lease, made.watch) == ([], None, None)


def test_off_kubernetes_it_is_left_out_unless_it_is_wanted(cluster, tmp_path):
    assert built(cluster, tmp_path, "use: [events]", environ={}) == Cluster()
    with pytest.raises(UsageError, match="no service account in"):
        built(cluster, tmp_path, "use: [events], enabled: true", environ={})


def test_all_that_is_named_is_there(cluster, tmp_path):
    uses = "use: [events, lease, evict_pod, mark_node, cordon]"
    made = built(cluster, tmp_path, uses, environ={"POD_NAME": "agent-x"})
    assert [lever.name for lever in made.levers] == ["evict_pod", "mark_node"]
    assert len(made.mirrors) == 1
    assert made.lease.hold("job=llama", 60.0)
    (lease,) = cluster.objects.of("leases")
    assert lease["spec"]["holderIdentity"] == "agent-x"


def test_beside_the_workload_it_is_the_agents_own_pod(cluster, tmp_path):
    own = pod("chat-0", owner="StatefulSet/chat")
    cluster.objects.add(path_of(own), own)
    environ = {"POD_NAME": "chat-0"}
    made = built(cluster, tmp_path, "use: [evict_pod]", role="sidecar", environ=environ)
    late = msgspec.structs.replace(plan("evict_pod"), made_at=1_800_000_000.0)
    assert made.levers[0].do(late).detail.startswith("pod chat-0 is evicted")


def test_the_nodes_name_in_the_cluster_comes_first(cluster, tmp_path):
    made = built(cluster, tmp_path, "use: [mark_node]", environ={"NODE_NAME": "gke-7"})
    assert '"gke-7" not found' in made.levers[0].unready(plan("mark_node"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kubernetes: {use: [cordon]}", "cordon goes with mark_node"),
        ("kubernetes: {use: [pod_events]}", "set node.role: sidecar"),
        ("actions: {lease: /x}\nkubernetes: {use: [lease]}", "leave one of them out"),
        ("kubernetes: {use: [delete]}", "Invalid enum value 'delete'"),
    ],
)
def test_what_does_not_fit_is_told_with_its_line(text, why):
    with pytest.raises(UsageError, match=why) as caught:
        config.parse(text, "g.yaml")
    assert "g.yaml:" in str(caught.value)
