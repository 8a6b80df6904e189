"""Every symptom that a rule knows has one dashboard, and a link can carry an alert's template."""

import re
from pathlib import Path

import pytest

from gpudiag import alerts
from gpudiag.agent.rules import RULES
from gpudiag.dashboards import registry
from tests.dashboards.boards import BOARDS, NAMES


def test_every_symptom_of_a_rule_is_shown_on_one_dashboard():
    listed = [symptom for symptoms in registry.SYMPTOMS.values() for symptom in symptoms]
    assert sorted(listed) == sorted(RULES)
    assert {registry.dashboard_of(symptom) for symptom in RULES} <= set(registry.UIDS)


@pytest.mark.parametrize("name", ["gpudiag.rules.yaml", "prometheusrule.yaml"])
def test_the_link_of_every_alert_opens_a_dashboard_with_variables_that_it_has(name):
    rules = (Path(alerts.__file__).parent / "generated" / name).read_text()
    links = set(re.findall(r"/d/([\w-]+)\?(\S.*)", rules))
    assert {registry.INCIDENT, registry.AGENT} <= {uid for uid, _ in links}
    for uid, query in links:
        board = BOARDS[NAMES.index(uid)]
        known = {variable["name"] for variable in board["templating"]["list"]}
        assert set(re.findall(r"var-(\w+)=", query)) <= known


def test_a_link_keeps_what_an_alert_fills_in():
    link = registry.path(registry.INCIDENT, symptom="gpu-xid", node="{{ $labels.node }}")
    assert link == "/d/gpudiag-incident?var-symptom=gpu-xid&var-node={{ $labels.node }}"
    assert registry.path(registry.FLEET) == "/d/gpudiag-fleet"
