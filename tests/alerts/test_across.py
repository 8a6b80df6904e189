"""Alerts over several series, on a real promtool: nodes of one job, a server, agents."""

import subprocess

import pytest
import yaml

from gpudiag.alerts import agents, cross_node, raw
from tests.alerts.test_rules import GENERATED, RAW
from tests.tools import needs

RANKS = [(rank, f"n{rank // 2}") for rank in range(8)]


def ranks(metric, of):
    """One series a rank: eight of them on four nodes; `of` gives a rank's values."""
    return {
        f'{metric}{{job="llama",rank="{rank}",instance="{node}"}}': of(rank) for rank, node in RANKS
    }


def server(metric, values, **more):
    pairs = {"instance": "n1", "server": "s", "model": "m", "engine": "vllm", **more}
    told = ",".join(f'{key}="{value}"' for key, value in pairs.items())
    return {f"gpudiag_serving_{metric}{{{told}}}": values}


def straggling(waits):
    """Node n0 computes 30 % longer; it waits little, or as long as all."""
    slow = {0, 1}
    return ranks(
        "gpudiag_train_compute_seconds", lambda r: "0.65x150" if r in slow else "0.5x150"
    ) | ranks("gpudiag_train_comm_wait_seconds", lambda r: waits if r in slow else "0.2x150")


def leaking(growth):
    gib = 2**30
    return {
        'gpudiag_torch_allocated_bytes{job="llama",rank="0"}': f"{40 * gib}+{growth}x1000",
        'gpudiag_train_info{job="llama",rank="0",uuid="G"}': "1x1000",
        'gpudiag_gpu_memory_total_bytes{uuid="G"}': f"{80 * gib}x1000",
    }


def full(waiting, thrown_out):
    return {
        **server("kv_cache_usage_ratio", "0.99x60"),
        **server("requests_waiting", waiting, reason="capacity"),
        **server("preemptions_total", thrown_out),
    }


def stalled(tokens):
    return {
        **server("requests_running", "12x60"),
        **server("generation_tokens_total", tokens),
    }


AGENT = 'gpudiag_build_info{instance="n1"}'
TRAINS = {'gpudiag_train_info{instance="n1",job="llama",rank="0"}': "1x150"}
ERRORS = 'gpudiag_network_errors_total{instance="n1",device="ib0"}'
DONE = 'gpudiag_actions_total{instance="n1",action="gc",outcome="verified"}'
STALE = 'gpudiag_probe_last_success_timestamp_seconds{probe="disk"}'

CASES = {
    # Minutes at which to look, series in which it fires, series in which it does not.
    "GpudiagStragglingNode": (40, straggling("0.05x150"), straggling("0.2x150")),
    "GpudiagJobRanksMissing": (
        # Without a stale marker a rank is gone five minutes after its last sample.
        45,
        ranks("gpudiag_train_info", lambda r: "1x60 _x90" if r == 3 else "1x150"),
        ranks("gpudiag_train_info", lambda r: "1x60 _x90"),
    ),
    "GpudiagNetworkErrors": (60, {ERRORS: "0+3x150", **TRAINS}, {ERRORS: "7x150", **TRAINS}),
    "GpudiagRawMemoryLeak": (480, leaking(30 * 2**20), leaking(2**20)),
    "GpudiagRawKvCacheFull": (20, full("4x60", "0+2x60"), full("4x60", "9x60")),
    "GpudiagRawEngineStalled": (20, stalled("500x60"), stalled("500+70x60")),
    "GpudiagAgentGone": (
        20,
        {AGENT: "1x20 _x40", 'up{instance="n1"}': "1x20 0x40"},
        {AGENT: "1x60", 'up{instance="n1"}': "1x60", 'up{instance="other"}': "0x60"},
    ),
    "GpudiagProbeStale": (20, {STALE: "100x60"}, {STALE: "0+30x60"}),
    "GpudiagHooksDropping": (
        20,
        {'gpudiag_hook_records_dropped_total{job="llama",rank="0"}': "0+3x60"},
        {'gpudiag_hook_records_dropped_total{job="llama",rank="0"}': "12x60"},
    ),
    "GpudiagActionBudgetUsed": (
        20,
        {"gpudiag_action_budget_remaining": "0x60"},
        {"gpudiag_action_budget_remaining": "1x60"},
    ),
    "GpudiagBreakerOpen": (20, {"gpudiag_breaker_open": "1x60"}, {"gpudiag_breaker_open": "0x60"}),
    "GpudiagRemediationLoop": (60, {DONE: "0x20 1x20 2x20 3x20 4x70"}, {DONE: "0x20 1x130"}),
}


def one(name, minute, series, count):
    expr = f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)'
    check = {"expr": expr, "eval_time": f"{minute}m"}
    return {
        "interval": "30s",
        "input_series": [{"series": key, "values": text} for key, text in series.items()],
        "promql_expr_test": [{**check, "exp_samples": [{"labels": "{}", "value": count}]}],
    }


@needs("promtool", "prometheus")
@pytest.mark.parametrize("name", CASES)
def test_it_fires_once_and_stays_quiet(name, tmp_path):
    minute, bad, good = CASES[name]
    test = {
        "rule_files": [str(GENERATED / "gpudiag.rules.yaml")],
        "evaluation_interval": "30s",
        "tests": [one(name, minute, bad, 1), one(name, minute, good, 0)],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    done = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "test.yaml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_that_is_no_findings_has_its_case():
    own = [*raw.rules(), *agents.rules(), *cross_node.rules()]
    assert {rule["alert"] for rule in own} == CASES.keys() | {row[0] for row in RAW}
