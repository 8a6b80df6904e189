from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpudiag.agent import config
from gpudiag.probes.catalog.rights import Role, rights

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
MANIFESTS: dict[str, Role] = {"daemonset.yaml": "node", "sidecar-example.yaml": "sidecar"}


def manifest(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def pod(name: str) -> dict[str, Any]:
    spec: dict[str, Any] = manifest(name)[1]["spec"]
    template: dict[str, Any] = spec.get("template", {"spec": spec})
    inner: dict[str, Any] = template["spec"]
    return inner


def agent(name: str) -> dict[str, Any]:
    spec = pod(name)
    both: list[dict[str, Any]] = [*spec.get("initContainers", []), *spec["containers"]]
    return next(c for c in both if c["name"] == "gpudiag")


def table() -> str:
    """The table of rights as the README shows it."""
    rows = ["feature", "right needed", "in a pod", "on a machine", "blind without it", "role"]
    cells = [
        [r.feature, r.right, r.pod, r.machine, r.blind, ", ".join(r.roles)]
        for r in rights().values()
    ]
    lines = [rows, ["---"] * len(rows), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def test_the_readme_shows_the_rights_that_doctor_prints() -> None:
    assert table() in (DEPLOY / "README.md").read_text(), f"put this into it:\n{table()}"


@pytest.mark.parametrize(("name", "role"), MANIFESTS.items())
def test_the_configuration_in_a_manifest_is_taken(name: str, role: Role) -> None:
    text = manifest(name)[0]["data"]["gpudiag.yaml"]
    assert config.parse(text, name).node.role == role


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_mount_has_its_volume_and_every_volume_a_mount(name: str) -> None:
    spec = pod(name)
    containers = [*spec.get("initContainers", []), *spec["containers"]]
    mounted = {mount["name"] for c in containers for mount in c["volumeMounts"]}
    assert mounted == {volume["name"] for volume in spec["volumes"]}


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_agent_finds_its_configuration_state_and_socket(name: str) -> None:
    paths = {mount["mountPath"] for mount in agent(name)["volumeMounts"]}
    assert {"/etc/gpudiag", "/var/lib/gpudiag", "/run/gpudiag"} <= paths
    assert {"name": "GPUDIAG_CONFIG", "value": "/etc/gpudiag/gpudiag.yaml"} in agent(name)["env"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_the_root_is_read_only_and_no_token_is_mounted(name: str) -> None:
    assert agent(name)["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod(name)["automountServiceAccountToken"] is False


def test_the_node_agent_has_every_right_of_the_table() -> None:
    spec, here = pod("daemonset.yaml"), agent("daemonset.yaml")
    assert (spec["hostPID"], spec["hostNetwork"], spec["runtimeClassName"]) == (
        True,
        True,
        "nvidia",
    )
    assert here["securityContext"]["privileged"] is True
    assert {"name": "kmsg", "mountPath": "/dev/kmsg", "readOnly": True} in here["volumeMounts"]
    assert {"name": "logs", "mountPath": "/var/log", "readOnly": True} in here["volumeMounts"]


def test_the_sidecar_has_no_privilege() -> None:
    spec, context = pod("sidecar-example.yaml"), agent("sidecar-example.yaml")["securityContext"]
    assert not spec.keys() & {"hostPID", "hostNetwork", "hostIPC"}
    assert all("hostPath" not in volume for volume in spec["volumes"])
    assert context["runAsNonRoot"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_training_container_and_sidecar_share_the_socket() -> None:
    (train,) = pod("sidecar-example.yaml")["containers"]
    assert {"name": "socket", "mountPath": "/run/gpudiag"} in train["volumeMounts"]


def test_a_manifest_that_was_not_run_says_so() -> None:
    for name in MANIFESTS:
        assert re.search(r"not\s+(# )?run on a cluster", (DEPLOY / name).read_text())


def test_the_image_copies_what_the_package_is_made_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tops = {name.split(".")[1] for name in project["tool"]["setuptools"]["packages"]}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.M)
    words = {word for line in copied for word in line.split()}
    assert words == tops | {"pyproject.toml", "README.md", "LICENSE"}


def test_the_image_runs_as_an_ordinary_user() -> None:
    assert re.search(r"^USER [1-9]\d+:", (DEPLOY / "Dockerfile").read_text(), re.M)


def test_the_unit_gives_the_rights_of_the_table() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(DEPLOY / "gpudiag.service")
    service = unit["Service"]
    assert {"CAP_SYSLOG", "CAP_SYS_PTRACE"} <= set(service["CapabilityBoundingSet"].split())
    assert (service["StateDirectory"], service["RuntimeDirectory"]) == ("gpudiag", "gpudiag")
