"""The watchman's own health: agents missing, blind, dropping, and what they may still do."""

from __future__ import annotations

from collections.abc import Iterator

from gpudiag.alerts.shape import Rule, alert


def rules() -> Iterator[Rule]:
    """The watchman's own health."""
    yield alert(
        "GpudiagAgentMissing",
        "absent(gpudiag_build_info)",
        "critical",
        "No gpudiag agent is scraped.",
        "No agent has been scraped for five minutes: nothing is watched.",
        hold="5m",
    )
    yield alert(
        "GpudiagAgentBlind",
        "gpudiag_probe_success == 0",
        "warning",
        "An agent cannot read one of its sources.",
        "Probe {{ $labels.probe }} on {{ $labels.instance }} fails; the agent's page says why.",
        hold="5m",
    )
    yield alert(
        "GpudiagAgentDropping",
        "rate(gpudiag_samples_dropped_total[5m]) > 0",
        "warning",
        "An agent drops samples.",
        "{{ $labels.instance }} drops {{ $value | humanize }} samples a second: its node is"
        " overloaded, or a clock is off.",
        hold="10m",
    )
    yield alert(
        "GpudiagAgentGone",
        "up == 0 and on (instance) last_over_time(gpudiag_build_info[6h])",
        "warning",
        "An agent that was scraped does not answer.",
        "The agent on {{ $labels.instance }} has not answered for five minutes: its node is not"
        " watched.",
        hold="5m",
    )
    yield alert(
        "GpudiagProbeStale",
        "time() - gpudiag_probe_last_success_timestamp_seconds > 300",
        "warning",
        "An agent has read nothing new from one of its sources for long.",
        "Probe {{ $labels.probe }} on {{ $labels.instance }}: {{ $value | humanizeDuration }} ago.",
        hold="5m",
    )
    yield alert(
        "GpudiagHooksDropping",
        "rate(gpudiag_hook_records_dropped_total[5m]) > 0",
        "warning",
        "A rank's hooks drop what they measured.",
        "Job {{ $labels.job }}, rank {{ $labels.rank }}: {{ $value | humanize }} records a second;"
        " the agent does not read fast enough.",
        hold="10m",
    )
    yield from _acting()


def _acting() -> Iterator[Rule]:
    """What an agent may still do, and what it does in vain."""
    yield alert(
        "GpudiagActionBudgetUsed",
        "gpudiag_action_budget_remaining == 0",
        "warning",
        "An agent may do nothing more for now.",
        "The budget of actions on {{ $labels.instance }} is used: what comes next waits for it or"
        " for a person.",
    )
    yield alert(
        "GpudiagBreakerOpen",
        "gpudiag_breaker_open == 1",
        "critical",
        "An agent's actions did not help, and it has stopped acting.",
        "The breaker on {{ $labels.instance }} is open: see `gpudiag actions`, then reset it.",
    )
    yield alert(
        "GpudiagRemediationLoop",
        "sum by (cluster, instance, action)"
        ' (increase(gpudiag_actions_total{outcome=~"verified|not_verified"}[6h])) >= 3',
        "warning",
        "The same action is taken again and again.",
        "{{ $labels.action }} on {{ $labels.instance }}: {{ $value | humanize }} times in six"
        " hours; what it mends comes back.",
    )
