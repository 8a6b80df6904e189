"""The panels of requests: how long they take, how many there are, and how large."""

from __future__ import annotations

from gpudiag.dashboards.common import Row
from gpudiag.dashboards.panels import NO_LIMIT, Limits, Query, Text, from_rule, graph
from gpudiag.dashboards.quirks import timeseries
from gpudiag.dashboards.variables import SERVER

ONE = "{{node}} {{server}}"
_SLOW = "serving-latency-high"
_JITTER = "serving-request-jitter"


def times(text: Text, histogram: str, width: int = 8) -> timeseries.Panel:
    """Median and 99th percentile of a histogram of the server's, over its series together."""
    rate = f"rate(gpudiag_serving_{histogram}_bucket{{{SERVER}}}[$__rate_interval])"
    both = f"sum by (node, server, le) ({rate})"
    return graph(
        text,
        Query(f"histogram_quantile(0.5, {both})", f"{ONE} half"),
        Query(f"histogram_quantile(0.99, {both})", f"{ONE} 99 of 100"),
        width=width,
    )


def latency() -> Row:
    """How long users wait."""
    own = Limits("none: what is slow depends on model and prompts; compare with the server's past")
    return Row(
        "Latency",
        (
            times(
                Text("Time to the first token", "Of half of the requests, and of 99 of 100.", "s",
                     own, _SLOW),
                "ttft_seconds",
            ),
            times(
                Text("Time between tokens", "Of half, and of 99 of 100: a median that rises is a"
                     " slower engine, a tail alone is jitter.", "s", own, _JITTER),
                "inter_token_seconds",
            ),
            times(
                Text("Time of a request", "From its arrival to its end.", "s", own, _SLOW),
                "request_seconds",
            ),
        ),
    )  # fmt: skip


def traffic() -> Row:
    """What is asked for, and what is made of it."""
    ended = "gpudiag_serving_requests_total"
    whole = f"rate({ended}{{{SERVER}}}[$__rate_interval])"
    late = f'rate({ended}{{{SERVER}, outcome="timeout"}}[$__rate_interval])'
    share = f"sum by (node, server) ({late}) / sum by (node, server) ({whole})"
    length = Limits("none: prompts are what users send")
    return Row(
        "Traffic",
        (
            graph(
                Text("Requests that ended", "Per second, by outcome.", "reqps", NO_LIMIT,
                     "serving-timeouts"),
                Query(f"sum by (node, server, outcome) ({whole})", f"{ONE} {{{{outcome}}}}"),
            ),
            graph(
                Text("Timeouts", "Share of the requests that ended.", "percentunit",
                     from_rule("serving-timeouts", "share"), "serving-timeouts"),
                Query(share, ONE),
            ),
            graph(
                Text("Tokens", "Per second: read, and written.", "short", NO_LIMIT, _SLOW),
                Query(
                    f"rate(gpudiag_serving_prompt_tokens_total{{{SERVER}}}[$__rate_interval])",
                    f"{ONE} read",
                ),
                Query(
                    f"rate(gpudiag_serving_generation_tokens_total{{{SERVER}}}[$__rate_interval])",
                    f"{ONE} written",
                ),
            ),
            times(
                Text("Length of prompts", "In tokens.", "short", length, "serving-timeouts"),
                "request_prompt_tokens",
            ),
            times(
                Text("Length of answers", "In tokens.", "short",
                     Limits("none: answers at the limit's length may have no end of their own"),
                     "serving-timeouts"),
                "request_generation_tokens",
            ),
            graph(
                Text("Outputs not finite", "Per second.", "cps",
                     Limits("any: the model computes with broken numbers", ((1e-9, "red"),)),
                     "output-quality-abnormal"),
                Query(f"rate(gpudiag_serving_nonfinite_total{{{SERVER}}}[$__rate_interval])", ONE),
            ),
        ),
    )  # fmt: skip
