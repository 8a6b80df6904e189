"""One id from rule to runbook: the sets that must be the same, compared."""

import re
from pathlib import Path

import pytest
import yaml

from gpudiag.agent import pages, probing
from gpudiag.agent.config import PROBES
from gpudiag.agent.rules import RULES, contract
from gpudiag.probes import catalog

ROOT = Path(__file__).parents[1]
INCIDENTS = ROOT / "tests" / "incidents"


def incidents(symptom):
    return [
        yaml.safe_load(path.read_text()) for path in sorted((INCIDENTS / symptom).glob("*.yaml"))
    ]


def expected(symptom):
    return [
        e for one in incidents(symptom) for e in one.get("expect", []) if e["symptom"] == symptom
    ]


def test_every_rule_file_is_registered():
    files = {p.stem for p in (ROOT / "agent/rules").glob("[!_]*.py")} - {"contract"}
    assert {name.replace("_", "-") for name in files} == set(RULES)


def test_every_rule_is_a_documented_symptom_with_a_page():
    assert set(RULES) <= set(catalog.symptoms())
    assert set(pages.names()) == set(RULES)


@pytest.mark.parametrize("symptom", RULES)
def test_every_rule_has_incidents_that_fire_and_near_misses(symptom):
    assert expected(symptom)
    quiet = [
        one
        for one in incidents(symptom)
        if one.get("quiet") in ("*",) or symptom in one.get("quiet", [])
    ]
    assert quiet


def named(expectation):
    """The causes an expectation accepts; without a word, a symptom's only one."""
    cause = expectation.get("cause", catalog.symptoms()[expectation["symptom"]].causes)
    return [cause] if isinstance(cause, str) else list(cause)


@pytest.mark.parametrize("symptom", sorted(set(RULES) - {"gpu-xid"}))
def test_every_cause_has_a_section_and_an_incident(symptom):
    seen = {cause for one in expected(symptom) for cause in named(one)}
    for cause in catalog.symptoms()[symptom].causes:
        assert pages.section(symptom, cause)
        assert cause in seen


def test_every_xid_has_a_section():
    for code in catalog.xids():
        assert pages.section("gpu-xid", f"xid-{code}")


@pytest.mark.parametrize("symptom", RULES)
def test_every_page_has_the_sections_the_on_call_looks_for(symptom):
    headings = re.findall(r"^## (.+)$", pages.page(symptom), re.M)
    wanted = ["Meaning", "Impact", "Diagnosis", "Causes", "Mitigation"]
    assert [h for h in headings if h in wanted] == wanted


@pytest.mark.parametrize("symptom", RULES)
def test_a_rule_reads_only_metrics_of_the_catalogue(symptom):
    rule = RULES[symptom]
    known = {
        name + part
        for name, metric in catalog.metrics().items()
        for part in (("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",))
    }
    assert rule.reads | rule.trends <= known


@pytest.mark.parametrize("symptom", RULES)
def test_every_threshold_says_where_it_comes_from(symptom):
    for name, threshold in RULES[symptom].thresholds.items():
        assert threshold.unit, name
        assert len(threshold.why) > 10, name


def test_every_probe_can_be_configured_and_is_in_the_catalogue():
    from gpudiag.agent.config import Config
    from gpudiag.agent.inventory import Inventory

    assert set(PROBES) == set(probing.FACTORIES)
    for probe in probing.build(Config(), Inventory()):
        assert probe.metrics <= set(catalog.metrics())
        probe.close()


def test_subjects_are_made_of_known_keys_only():
    with pytest.raises(ValueError, match="no such subject key"):
        contract.subject(gpu="1")
