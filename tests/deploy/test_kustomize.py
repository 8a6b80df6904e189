"""The helper that the other tests read the overlays with agrees with kustomize itself."""

import re
import shutil
import subprocess

import pytest
import yaml

from tests.deploy.kustomized import DEPLOY, OVERLAYS, kustomized

# Not apt's: CI has it only where the image brings it, and no other test needs it.
kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here")
HASH = re.compile(r"-[a-z0-9]{10}$")


def unhashed(text: str):
    """The objects by identity, generated names without the hash of their content."""
    found = {}
    for one in yaml.safe_load_all(text):
        if one["kind"] == "ConfigMap":
            one["metadata"]["name"] = HASH.sub("", one["metadata"]["name"])
        for volume in pod_volumes(one):
            if "configMap" in volume:
                volume["configMap"]["name"] = HASH.sub("", volume["configMap"]["name"])
        found[identity(one)] = one
    return found


def pod_volumes(one):
    return one.get("spec", {}).get("template", {}).get("spec", {}).get("volumes", [])


def identity(one):
    return one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]


@kubectl
@pytest.mark.parametrize("folder", ["monitoring", *(f"overlays/{name}" for name in OVERLAYS)])
def test_kubectl_builds_the_same_objects(folder):
    command = ["kubectl", "kustomize", str(DEPLOY / folder)]
    built = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
    assert built.returncode == 0, built.stderr
    assert "# Warning" not in built.stderr
    ours = {identity(one): one for one in kustomized(DEPLOY / folder)}
    assert unhashed(built.stdout) == ours
