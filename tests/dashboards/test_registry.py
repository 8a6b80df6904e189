"""Every symptom that a rule knows has one dashboard, and a link can carry an alert's template."""

from gpudiag.agent.rules import RULES
from gpudiag.dashboards import registry


def test_every_symptom_of_a_rule_is_shown_on_one_dashboard():
    listed = [symptom for symptoms in registry.SYMPTOMS.values() for symptom in symptoms]
    assert sorted(listed) == sorted(RULES)
    assert {registry.dashboard_of(symptom) for symptom in RULES} <= set(registry.UIDS)


def test_a_link_keeps_what_an_alert_fills_in():
    link = registry.path(registry.INCIDENT, symptom="gpu-xid", node="{{ $labels.node }}")
    assert link == "/d/gpudiag-incident?var-symptom=gpu-xid&var-node={{ $labels.node }}"
    assert registry.path(registry.FLEET) == "/d/gpudiag-fleet"
