"""Alerts over several series, on a real promtool: nodes of one job, a server, agents."""

import re

import pytest

from gpudiag.alerts import agents, cross_node, exporters, raw
from gpudiag.probes.catalog.dialects import dialects
from tests.alerts import promtool
from tests.alerts.test_rules import RAW
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


DCGM = '{gpu="3",UUID="G",Hostname="n1",exported_pod="train-0"}'


def vllm(name, values):
    return {f'vllm:{name}{{instance="s:8000",model_name="m",engine="0"}}': values}


def cache(name, waiting):
    return {**vllm(name, "0.99x60"), **vllm("num_requests_waiting", waiting)}


EXPORTERS = [
    *(
        (alert, 20, {name + DCGM: bad}, {name + DCGM: good})
        for alert, both, bad, good in (
            (
                "GpudiagDcgmXid",
                ("DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_XID_ERROR"),
                "0x20 79x40",
                "0x20 31x40",
            ),
            (
                "GpudiagDcgmThermalThrottle",
                ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"),
                # 0x40 and the power cap; the power cap and idle.
                "68x60",
                "5x60",
            ),
            (
                "GpudiagDcgmEccUncorrectable",
                ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",),
                "0x30 2x30",
                "5x60",
            ),
            (
                "GpudiagDcgmRowRemapFailed",
                ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_FAILED"),
                "1x60",
                "0x60",
            ),
        )
        for name in both
    ),
    *(
        ("GpudiagServerCacheFull", 20, cache(name, "4x60"), cache(name, "0x60"))
        for name in ("kv_cache_usage_perc", "gpu_cache_usage_perc")
    ),
    (
        "GpudiagServerStalled",
        20,
        {**vllm("num_requests_running", "9x60"), **vllm("generation_tokens_total", "500x60")},
        {**vllm("num_requests_running", "9x60"), **vllm("generation_tokens_total", "5+70x60")},
    ),
]


@needs("promtool", "prometheus")
@pytest.mark.parametrize("name", CASES)
def test_it_fires_once_and_stays_quiet(name, tmp_path):
    tried(tmp_path, "gpudiag.rules.yaml", name, *CASES[name])


@needs("promtool", "prometheus")
@pytest.mark.parametrize("case", EXPORTERS, ids=lambda case: f"{case[0]}-{min(case[2])[:40]}")
def test_so_it_does_on_what_exporters_tell_without_an_agent(case, tmp_path):
    tried(tmp_path, "exporters.rules.yaml", *case)


def tried(folder, rules, name, minute, bad, good):
    tests = [
        promtool.firing(name, f"{minute}m", series, count)
        for series, count in ((bad, 1), (good, 0))
    ]
    promtool.passes(folder, tests, rules=rules)


def test_every_alert_that_is_no_findings_has_its_case():
    own = [*raw.rules(), *agents.rules(), *cross_node.rules()]
    assert {rule["alert"] for rule in own} == CASES.keys() | {row[0] for row in RAW}


def test_so_has_every_alert_on_exporters_and_reads_names_of_the_dialects():
    assert {rule["alert"] for rule in exporters.rules()} == {case[0] for case in EXPORTERS}
    known = {name for dialect in dialects() for name in dialect.meanings}
    read = {n for r in exporters.rules() for n in re.findall(r"DCGM_\w+|\w+:\w+", r["expr"])}
    assert read <= known


@needs("promtool", "prometheus")
def test_an_xid_that_the_exporter_keeps_for_ever_alerts_for_an_hour(tmp_path):
    series = {"DCGM_FI_DEV_XID_ERRORS" + DCGM: "0x20 79x400"}
    tests = [
        promtool.firing("GpudiagDcgmXid", f"{minute}m", series, count)
        for minute, count in ((9, 0), (12, 1), (60, 1), (80, 0))
    ]
    promtool.passes(tmp_path, tests, rules="exporters.rules.yaml")


@needs("promtool", "prometheus")
def test_the_raw_leak_is_about_the_rank_and_the_gpu_as_its_finding_is(tmp_path):
    told = 'ALERTS{alertname="GpudiagRawMemoryLeak",subject="uuid=G,job=llama,rank=0"}'
    test = promtool.firing("GpudiagRawMemoryLeak", "480m", leaking(30 * 2**20), 1)
    test["promql_expr_test"][0]["expr"] = f"count({told})"
    promtool.passes(tmp_path, [test], rules="gpudiag.rules.yaml")
