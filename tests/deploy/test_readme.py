"""The README's tables are the program's data, and what its commands name is there."""

import re

from gpudiag.agent.kubernetes.rights import RIGHTS
from gpudiag.probes.catalog.rights import rights
from tests.deploy.kustomized import DEPLOY, OVERLAYS, ROOT

README = (DEPLOY / "README.md").read_text()
SCOPES = {"namespace": "its own namespace", "default": "default", "cluster": "the cluster"}


def markdown(rows):
    head, *rest = rows
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rest])


def of_rights():
    head = ["feature", "right needed", "in a pod", "on a machine", "blind without it", "role"]
    cells = [
        [r.feature, r.right, r.pod, r.machine, r.blind, ", ".join(r.roles)]
        for r in rights().values()
    ]
    return markdown([head, *cells])


def of_uses():
    cells = [
        [
            one.use,
            role,
            f"{', '.join(one.verbs)} {one.resource}",
            one.group or "core",
            SCOPES[one.scope],
            f"`rights/{role}/{one.use.replace('_', '-')}`",
        ]
        for one in RIGHTS
        for role in one.roles
    ]
    return markdown([["use", "role", "may", "API group", "where", "component"], *cells])


def test_it_shows_the_rights_that_doctor_prints():
    assert of_rights() in README, f"put this into it:\n{of_rights()}"


def test_it_shows_what_acting_asks_of_the_cluster():
    assert of_uses() in README, f"put this into it:\n{of_uses()}"


def test_it_names_every_overlay_and_no_other():
    named = set(re.findall(r"`((?:daemonset|sidecar|actions)[\w-]*)`", README))
    assert named == set(OVERLAYS)


def test_every_path_in_its_commands_is_there():
    commands = re.findall(r"^    (.*)$", README, re.M)
    paths = {
        word for line in commands for word in re.findall(r"(?<!\S)(?:deploy|alerts)/\S+", line)
    }
    assert len(paths) >= 5
    assert [path for path in paths if not (ROOT / path).exists()] == []
