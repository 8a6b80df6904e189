"""The alert rules: generated, accepted by promtool, firing and quiet on replayed incidents."""

import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from gpudiag.agent.cli import root
from gpudiag.agent.findings.finding import subject_label
from gpudiag.agent.replay import fresh_engine, load, replay
from gpudiag.agent.rules import RULES
from gpudiag.alerts import files, rules
from gpudiag.probes import catalog
from tests.alerts import promtool
from tests.tools import needs

ROOT = Path(__file__).parents[2]
EVERY = [rule for group in rules.groups() for rule in group["rules"]]
ALL = [rule for rule in EVERY if "alert" in rule]
RECORDED = [rule for rule in EVERY if "record" in rule]
STEP = 15


def test_the_committed_files_are_those_that_would_be_written():
    for name, text in files.files().items():
        assert (promtool.GENERATED / name).read_text() == text, (
            "renew them: python -m gpudiag.alerts"
        )


def test_every_symptom_has_its_alert():
    assert {rules.alert_name(symptom) for symptom in RULES} <= {rule["alert"] for rule in ALL}


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule["alert"])
def test_an_alert_reads_known_metrics_and_tells_no_value_in_a_label(rule):
    assert set(re.findall(r"gpudiag_\w+", rule["expr"])) <= set(catalog.metrics())
    assert "$value" not in str(rule["labels"])
    assert rule["annotations"].keys() >= {"summary", "description"}


@pytest.mark.parametrize("rule", RECORDED, ids=lambda rule: rule["record"])
def test_a_recording_reads_known_metrics_and_is_named_level_metric_operations(rule):
    level, metric, operations = rule["record"].split(":")
    assert metric in catalog.metrics()
    assert metric in rule["expr"]
    assert f"by (cluster, {level.split('_')[0]}," in rule["expr"]
    assert operations
    assert set(re.findall(r"gpudiag_\w+", rule["expr"])) <= set(catalog.metrics())


def test_the_critical_xids_are_those_of_the_catalogue():
    expr = next(rule["expr"] for rule in ALL if rule["alert"] == "GpudiagRawXid")
    codes = re.search(r'xid=~"([\d|]+)"', expr)
    assert codes
    assert {"48", "79", "95"} <= set(codes[1].split("|"))
    assert not {"13", "31", "43", "45"} & set(codes[1].split("|"))


@needs("promtool", "prometheus")
@pytest.mark.parametrize("name", promtool.RULE_FILES)
def test_promtool_has_nothing_to_say(name):
    promtool.accepted("check", "rules", "--lint=all", "--lint-fatal", promtool.GENERATED / name)


def firings(symptom):
    """The findings of that symptom in its incidents, each with the length of its recording."""
    for path in sorted((ROOT / "tests/incidents" / symptom).glob("*.yaml")):
        timeline = load(path)
        for finding in replay(timeline, fresh_engine()).findings():
            if (
                finding.symptom == symptom
                and finding.state == "firing"
                and not finding.explained_by
            ):
                yield finding, timeline.end - timeline.start


def promtool_test(symptom):
    """A promtool unit test: the alert is absent before the finding fires, and firing after."""
    finding, end = next(firings(symptom))
    labels = {
        "symptom": symptom,
        "cause": finding.cause,
        "severity": finding.severity,
        "subject": subject_label(finding.subject),
    }
    pairs = ",".join(f'{name}="{value}"' for name, value in labels.items())
    before = int(finding.raised_at // STEP) + 1
    values = f"_x{before} {finding.confidence}x{max(int(end // STEP) - before, 20)}"
    alert = f'ALERTS{{alertname="{rules.alert_name(symptom)}"}}'
    firing = f'ALERTS{{alertname="{rules.alert_name(symptom)}",alertstate="firing",{pairs}}}'
    checks = [
        {"expr": alert, "eval_time": f"{(before - 1) * STEP}s"},
        {
            "expr": alert,
            "eval_time": f"{(before + 2) * STEP}s",
            "exp_samples": [{"labels": firing, "value": 1}],
        },
    ]
    series = {"series": f"gpudiag_finding_active{{{pairs}}}", "values": values}
    build = {"series": 'gpudiag_build_info{version="0"}', "values": "1x10000"}
    return {
        "interval": f"{STEP}s",
        "input_series": [series, build],
        "promql_expr_test": checks,
    }


@needs("promtool", "prometheus")
@pytest.mark.parametrize("symptom", sorted(RULES))
def test_the_alert_follows_the_replayed_finding(symptom, tmp_path):
    promtool.passes(
        tmp_path, [promtool_test(symptom)], rules="gpudiag.rules.yaml", every=f"{STEP}s"
    )


RAW = [
    ("GpudiagRawGpuLost", 'gpudiag_gpu_lost{uuid="G",gpu="1"}', "0x8 1x20", "0x28"),
    (
        "GpudiagRawXid",
        'gpudiag_gpu_xid_errors_total{uuid="G",gpu="1",xid="79"}',
        "0x8 1x20",
        "3x28",
    ),
    # The first XID of a kind makes its series; one that began with the agent is an old one.
    ("GpudiagRawXid", 'gpudiag_gpu_xid_errors_total{uuid="G",xid="48"}', "_x23 1x9", "1x40"),
    (
        "GpudiagRawEccUncorrectable",
        'gpudiag_gpu_ecc_errors_total{uuid="G",gpu="1",kind="uncorrected",scope="volatile"}',
        "0x8 2x20",
        "5x28",
    ),
    (
        "GpudiagRawThermalThrottle",
        'gpudiag_gpu_throttle_seconds_total{uuid="G",gpu="1",reason="hw_thermal"}',
        "0x8 0+20x40",
        "0+3x48",
    ),
    ("GpudiagAgentBlind", 'gpudiag_probe_success{probe="nvml"}', "1x4 0x30", "1x34"),
    ("GpudiagAgentMissing", "gpudiag_build_info", "1x2 _x40", "1x42"),
    ("GpudiagAgentDropping", "gpudiag_samples_dropped_total", "0+5x60", "9x60"),
]


@needs("promtool", "prometheus")
@pytest.mark.parametrize(
    ("alert", "series", "bad", "good"), RAW, ids=[f"{row[0]}-{n}" for n, row in enumerate(RAW)]
)
def test_a_raw_alert_fires_and_stays_quiet(alert, series, bad, good, tmp_path):
    build = {'gpudiag_build_info{version="0"}': "1x60"} if series != "gpudiag_build_info" else {}
    tests = [
        promtool.firing(alert, "14m", {series: values, **build}, count)
        for values, count in ((bad, 1), (good, 0))
    ]
    promtool.passes(tmp_path, tests, rules="gpudiag.rules.yaml")


def test_they_can_be_exported(tmp_path):
    done = CliRunner().invoke(root, ["alerts", "export", str(tmp_path / "rules")])
    assert done.exit_code == 0
    assert {path.name for path in (tmp_path / "rules").iterdir()} == set(files.files())


@needs("promtool", "prometheus")
def test_every_link_of_what_is_exported_leads_to_the_readers_own_hosts(tmp_path):
    own = ["--runbooks", "https://pages.example/gpu/", "--grafana", "https://grafana.example"]
    done = CliRunner().invoke(root, ["alerts", "export", str(tmp_path), *own])
    assert done.exit_code == 0
    urls = [
        rule["annotations"][kind]
        for name in ("gpudiag.rules.yaml", "exporters.rules.yaml")
        for group in yaml.safe_load((tmp_path / name).read_text())["groups"]
        for rule in group["rules"]
        for kind in ("runbook_url", "dashboard_url")
        if kind in rule.get("annotations", {})
    ]
    hosts = {url.split("/d/")[0] if "/d/" in url else url.rpartition("/")[0] for url in urls}
    assert hosts == {"https://pages.example/gpu", "https://grafana.example"}
    assert "https://pages.example/gpu/gpu-xid#" in (tmp_path / "prometheusrule.yaml").read_text()
    promtool.accepted("check", "rules", tmp_path / "gpudiag.rules.yaml")


@pytest.mark.parametrize("address", ["grafana.example", "https://a b", "ftp://a", "http://a'b"])
def test_what_is_no_address_is_refused(tmp_path, address):
    done = CliRunner().invoke(root, ["alerts", "export", str(tmp_path), "--grafana", address])
    assert "is no address" in str(done.exception)
    assert not list(tmp_path.iterdir())
