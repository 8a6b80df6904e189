"""Who may do what: Pod Security Standards, tokens, and each right of the catalogue."""

import stat
from pathlib import PurePosixPath

import pytest
import yaml

from gpudiag.agent.kubernetes.account import MOUNT
from gpudiag.agent.kubernetes.rights import RIGHTS
from gpudiag.probes.catalog.rights import rights
from tests.deploy.kustomized import DEPLOY, OVERLAYS, documents, overlay
from tests.deploy.pods import NODES, SIDECARS, agent, containers, mounts, pod, settings, volume

RESTRICTED_VOLUMES = {"configMap", "emptyDir", "projected", "secret", "downwardAPI", "csi"}
ACTING = {"actions-node", "actions-training", "actions-vllm"}


def against_restricted(spec):
    """What the profile `restricted` of the Pod Security Standards would refuse."""
    found = [key for key in ("hostPID", "hostNetwork", "hostIPC") if spec.get(key)]
    found += [v["name"] for v in spec["volumes"] if not v.keys() & RESTRICTED_VOLUMES]
    whole = spec.get("securityContext", {})
    for one in containers(spec):
        own = whole | one.get("securityContext", {})
        wanted = {
            "privileged": own.get("privileged", False) is False,
            "runAsNonRoot": own.get("runAsNonRoot") is True,
            "runAsUser": own.get("runAsUser") != 0,
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "capabilities": own.get("capabilities") == {"drop": ["ALL"]},
            "seccompProfile": own.get("seccompProfile") == {"type": "RuntimeDefault"},
            "hostPort": all("hostPort" not in port for port in one.get("ports", [])),
        }
        found += [f"{one['name']}: {what}" for what, holds in wanted.items() if not holds]
    return found


@pytest.mark.parametrize("name", SIDECARS)
def test_a_sidecars_pod_is_admitted_where_only_restricted_ones_are(name):
    assert against_restricted(pod(name)) == []


@pytest.mark.parametrize("name", NODES)
def test_the_node_agent_alone_is_privileged_and_its_namespace_says_so(name):
    assert "gpudiag: privileged" in against_restricted(pod(name))
    (namespace,) = [o for o in overlay(name) if o["kind"] == "Namespace"]
    enforced = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert enforced == "privileged"


@pytest.mark.parametrize("name", NODES)
def test_the_node_agent_has_every_right_of_the_table(name):
    spec, here = pod(name), agent(name)
    given = {
        "gpus": spec["runtimeClassName"] == "nvidia",
        "kernel-log": "/dev/kmsg" in mounts(here) and here["securityContext"]["privileged"],
        "host-pids": spec["hostPID"],
        "other-processes": here["securityContext"]["privileged"],
        "host-groups": spec["hostPID"] and here["securityContext"]["privileged"],
        "host-network": spec["hostNetwork"],
        "state": "/var/lib/gpudiag" in mounts(here),
        "socket": "/run/gpudiag" in mounts(here),
        "container-logs": {"/var/log/containers", "/var/log/pods"} <= mounts(here).keys(),
        "signals": spec["hostPID"] and here["securityContext"]["privileged"],
        "cluster": (str(MOUNT) in mounts(here)) or name not in ACTING,
    }
    assert given.keys() == {one.id for one in rights().values() if "node" in one.roles}
    assert all(given.values()), given


@pytest.mark.parametrize("name", OVERLAYS)
def test_only_the_agent_has_a_token_and_only_where_it_acts_in_the_cluster(name):
    assert pod(name)["automountServiceAccountToken"] is False
    holders = {c["name"] for c in containers(pod(name)) if str(MOUNT) in mounts(c)}
    assert holders == ({"gpudiag"} if name in ACTING else set())


@pytest.mark.parametrize("name", sorted(ACTING))
def test_the_token_is_laid_out_as_the_agent_reads_it(name):
    projected = volume(name, mounts(agent(name))[str(MOUNT)])["projected"]
    paths = set()
    for source in projected["sources"]:
        (told,) = source.values()
        paths |= {one["path"] for one in told.get("items", [told])}
    assert paths == {"token", "ca.crt", "namespace"}
    assert not projected["defaultMode"] & stat.S_IRWXO


@pytest.mark.parametrize("name", sorted(ACTING))
def test_what_the_configuration_uses_is_what_the_overlay_allows(name):
    told = yaml.safe_load((DEPLOY / "overlays" / name / "kustomization.yaml").read_text())
    allowed = {path.rpartition("/")[2].replace("-", "_") for path in told["components"]}
    assert allowed == {"token", *settings(name).kubernetes.use}


@pytest.mark.parametrize("name", ["daemonset", "sidecar-training", "sidecar-vllm"])
def test_without_actions_there_is_no_right_at_all(name):
    assert not [o for o in overlay(name) if "rules" in o or "subjects" in o]


def given(role, use):
    """What a component of `deploy/rights` allows, as (group, resource, verbs, scope)."""
    found = set()
    folder = DEPLOY / "rights" / role / use.replace("_", "-")
    for one in documents(folder / "rbac.yaml"):
        for rule in one.get("rules", []):
            space = one["metadata"].get("namespace", "")
            scope = {"default": "default"}.get(space, "namespace")
            scope = "cluster" if one["kind"] == "ClusterRole" else scope
            (group,), (resource,) = rule["apiGroups"], rule["resources"]
            found.add((group, resource, tuple(rule["verbs"]), scope))
    return found


@pytest.mark.parametrize(
    ("role", "use"), sorted({(role, one.use) for one in RIGHTS for role in one.roles})
)
def test_each_use_is_allowed_what_the_agent_asks_for_and_no_more(role, use):
    needed = {
        (one.group, one.resource, one.verbs, one.scope)
        for one in RIGHTS
        if one.use == use and role in one.roles
    }
    assert given(role, use) == needed


def test_no_component_is_for_a_use_that_the_agent_does_not_have():
    there = {
        (path.parts[-2], path.name.replace("-", "_"))
        for path in DEPLOY.glob("rights/*/*")
        if path.name != "token"
    }
    assert there == {(role, one.use) for one in RIGHTS for role in one.roles}


@pytest.mark.parametrize("role", ["node", "sidecar"])
def test_a_role_is_bound_to_the_agent_and_nobody_else(role):
    for path in DEPLOY.glob(f"rights/{role}/*/rbac.yaml"):
        allowed, bound = documents(path)
        ref = bound["roleRef"]
        assert (ref["kind"], ref["name"]) == (allowed["kind"], allowed["metadata"]["name"])
        assert [s["name"] for s in bound["subjects"]] == ["gpudiag"]
        assert bound["metadata"] == allowed["metadata"]


def test_a_mounted_socket_is_the_nodes_own_folder():
    """Training pods of a node with a DaemonSet mount this folder: it must not move."""
    (path,) = {volume(name, "socket")["hostPath"]["path"] for name in NODES}
    assert PurePosixPath(path) == PurePosixPath("/run/gpudiag")
