"""Every manifest against the schemas of Kubernetes, from the oldest release that will do."""

import copy
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.deploy.kustomized import DEPLOY, OVERLAYS, ROOT, documents, kustomized, overlay

RELEASES = ["1.29", kubernetes_validate.latest_version()]
"""The first with sidecar containers on by default, and the newest that the package knows."""

CRDS = yaml.safe_load((Path(__file__).parent / "crds.yaml").read_text())
OBJECTS = {
    f"{name} {one['kind']} {one['metadata']['name']}": one
    for name in OVERLAYS
    for one in overlay(name)
}
CORDON = documents(DEPLOY / "rights/node/cordon/rbac.yaml")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", OBJECTS)
def test_the_api_takes_it(name, release):
    kubernetes_validate.validate(copy.deepcopy(OBJECTS[name]), release, strict=True)


@pytest.mark.parametrize("one", CORDON, ids=lambda one: one["kind"])
def test_the_api_takes_the_right_that_no_overlay_has(one):
    kubernetes_validate.validate(one, RELEASES[0], strict=True)


def test_a_misspelt_field_is_seen():
    (wrong,) = [o for o in overlay("sidecar-vllm") if o["kind"] == "Deployment"]
    wrong["spec"]["template"]["spec"]["initContainers"][0]["restartpolicy"] = "Always"
    with pytest.raises(kubernetes_validate.ValidationError, match="restartpolicy"):
        kubernetes_validate.validate(wrong, RELEASES[0], strict=True)


def of_the_operator():
    return [
        *kustomized(DEPLOY / "monitoring"),
        *documents(ROOT / "alerts/generated/prometheusrule.yaml"),
    ]


@pytest.mark.parametrize("one", of_the_operator(), ids=lambda one: one["kind"])
def test_the_operator_takes_it(one):
    jsonschema.validate(one, CRDS[one["kind"]])


def test_a_misspelt_field_of_the_operator_is_seen():
    wrong = kustomized(DEPLOY / "monitoring")[0]
    wrong["spec"]["podMetricsEndpoints"][0]["honourLabels"] = True
    with pytest.raises(jsonschema.ValidationError, match="honourLabels"):
        jsonschema.validate(wrong, CRDS["PodMonitor"])


def test_every_file_is_in_some_kustomization():
    """A manifest that no kustomization names is never applied."""
    unnamed = []
    for path in DEPLOY.glob("*/**/*.yaml"):
        if path.name != "kustomization.yaml" and "examples" not in path.parts:
            told = (path.parent / "kustomization.yaml").read_text()
            unnamed += [] if path.name in told else [str(path)]
    assert unnamed == []


def test_subjects_name_a_namespace_and_an_account_that_is_there():
    for name in OVERLAYS:
        objects = overlay(name)
        accounts = {
            (o["metadata"]["namespace"], o["metadata"]["name"])
            for o in objects
            if o["kind"] == "ServiceAccount"
        }
        bound = [s for o in objects for s in o.get("subjects", [])]
        assert {(s["namespace"], s["name"]) for s in bound} <= accounts
