"""The training job: its ranks side by side, where a step's time goes, and who waits for whom."""

from __future__ import annotations

from gpudiag.dashboards import registry, training_details
from gpudiag.dashboards.common import Row, dashboard, findings, unknown
from gpudiag.dashboards.marks import ACTIONS, XIDS, checkpoints, starts
from gpudiag.dashboards.panels import (
    NO_LIMIT,
    Limits,
    Query,
    Text,
    from_rule,
    graph,
    listing,
    number,
)
from gpudiag.dashboards.quirks import Json
from gpudiag.dashboards.variables import NODE, RANK

_ONE = "{{job}} rank {{rank}}"
_LATE = "straggler"
_STOPPED = "training-interrupted"
_COLUMNS = ("step", "compute", "data_wait", "comm_wait")


def build() -> Json:
    """The dashboard as JSON."""
    return dashboard(
        registry.TRAINING,
        "A training job: which rank is late, and whether it computes or waits, and for what.",
        ("cluster", "node", "job", "rank"),
        (checkpoints(RANK), starts(RANK), XIDS, ACTIONS),
        (
            Row("What is wrong", (findings(), unknown())),
            _ranks(),
            _step(),
            _waiting(),
            _progress(),
            training_details.row(),
        ),
    )


def _seconds(part: str) -> str:
    return f"gpudiag_train_{part}_seconds{{{RANK}}}"


def _ranks() -> Row:
    table = Text(
        "Ranks side by side",
        "Seconds of a step now, and batches ready. In a synchronous job all steps take the same"
        " time: the rank that waits least for others is the one they wait for.",
        "s",
        Limits("none: compare the rows"),
        _LATE,
    )
    names = {"node": "node", "job": "job", "rank": "rank", "Value #A": "step"}
    names |= {"Value #B": "compute", "Value #C": "data wait", "Value #D": "comm wait"}
    names |= {"Value #E": "batches ready", "Value #F": "steps a second"}
    queries = [Query(_seconds(part), _ONE) for part in _COLUMNS]
    queries.append(Query(f"gpudiag_train_loader_queue_depth{{{RANK}}}", _ONE))
    queries.append(Query(f"rate(gpudiag_train_steps_total{{{RANK}}}[$__rate_interval])", _ONE))
    plain = {"rank": "none", "batches ready": "short", "steps a second": "short"}
    reporting = Text(
        "Ranks seen",
        "Ranks that report now; fewer than the job has means that some ended or never attached.",
        "short",
        Limits("none: the job's size is its own"),
        _STOPPED,
    )
    here = Query(f"count by (job) (gpudiag_train_info{{{RANK}}})", "{{job}}")
    return Row(
        "Ranks side by side",
        (listing(table, *queries, names=names, units=plain, width=20), number(reporting, here)),
    )


def _step() -> Row:
    stacked = Text(
        "Where a step's time goes",
        "Mean over the chosen ranks; choose one rank to see it alone. What is left to the step's"
        " time was not measured.",
        "s",
        NO_LIMIT,
        _LATE,
    )
    known = " - ".join(f"avg by (job) ({_seconds(part)})" for part in _COLUMNS)
    share = Limits("none: a large share is worth a look, a larger one on one rank more so")
    tail = (
        "histogram_quantile(0.99, sum by (job, rank, le)"
        f" (rate(gpudiag_train_step_duration_seconds_bucket{{{RANK}}}[$__rate_interval])))"
    )
    return Row(
        "The step",
        (
            graph(
                stacked,
                Query(f"avg by (job) ({_seconds('compute')})", "{{job}} compute"),
                Query(f"avg by (job) ({_seconds('data_wait')})", "{{job}} data wait"),
                Query(f"avg by (job) ({_seconds('comm_wait')})", "{{job}} comm wait"),
                Query(f"clamp_min({known}, 0)", "{{job}} rest"),
                stacked=True,
                width=12,
            ),
            graph(
                Text(
                    "Comm wait against compute", "Share of the step; the rank that computes while"
                    " the others wait is the slow one.", "percentunit", share, _LATE,
                ),
                Query(f"{_seconds('comm_wait')} / {_seconds('step')}", f"{_ONE} comm wait"),
                Query(f"{_seconds('compute')} / {_seconds('step')}", f"{_ONE} compute"),
                top=1,
                width=12,
            ),
            graph(
                Text("Time of a step", "Mean over the interval.", "s", NO_LIMIT, _LATE),
                Query(_seconds("step"), _ONE),
            ),
            graph(
                Text("Time of a step, 99 of 100", "What is longer is rare.", "s", NO_LIMIT, _LATE),
                Query(tail, _ONE),
            ),
            graph(
                Text("Steps", "Per second.", "short", NO_LIMIT, _STOPPED),
                Query(f"rate(gpudiag_train_steps_total{{{RANK}}}[$__rate_interval])", _ONE),
            ),
        ),
    )  # fmt: skip


def _waiting() -> Row:
    empty = Limits("1, since at 0 the next step waits for its data", ((1, "green"),), below="red")
    its_clock = (
        f"max by (job, rank) (gpudiag_train_info{{{RANK}}} * on (uuid) group_left ()"
        f' max by (uuid) (gpudiag_gpu_clock_hertz{{{NODE}, clock="sm"}}))'
    )
    sequence = "gpudiag_train_collective_sequence"
    entered = f'{sequence}{{{RANK}, state="enqueued"}}'
    behind = (
        f"max by (cluster, job, group) ({entered})"
        f" - on (cluster, job, group) group_right () {entered}"
    )
    return Row(
        "Who waits for whom",
        (
            graph(
                Text(
                    "Comes after the first", "Seconds of a step by which a rank enters collectives"
                    " after the first one.", "s", NO_LIMIT, _LATE,
                ),
                Query(f"gpudiag_train_arrival_lag_seconds{{{RANK}}}", _ONE),
            ),
            graph(
                Text(
                    "Comes last", "Share of the steps in which this rank came the furthest behind.",
                    "percentunit", from_rule(_LATE, "share"), _LATE,
                ),
                Query(f"gpudiag_train_last_arrivals_ratio{{{RANK}}}", _ONE),
                top=1,
            ),
            graph(
                Text(
                    "Collectives behind", "Collectives that the furthest rank of the group has"
                    " entered and this one has not.", "short",
                    Limits("none: one or two are jitter, a number that stays is a hang"), _STOPPED,
                ),
                Query(behind, f"{_ONE} {{{{group}}}}"),
            ),
            graph(
                Text("Data wait", "Share of the step.", "percentunit", NO_LIMIT, _LATE),
                Query(f"{_seconds('data_wait')} / {_seconds('step')}", _ONE),
                top=1,
            ),
            graph(
                Text("Loader's queue", "Batches ready.", "short", empty, _LATE),
                Query(f"gpudiag_train_loader_queue_depth{{{RANK}}}", _ONE),
                Query(f"gpudiag_train_loader_queue_capacity{{{RANK}}}", f"{_ONE} room"),
            ),
            graph(
                Text(
                    "Clock of each rank's GPU", "Of its SMs.", "hertz",
                    Limits("none: lower than the others' is what matters"), "thermal-throttle",
                ),
                Query(its_clock, _ONE),
            ),
            graph(
                Text("Comm wait by group", "Seconds of a step.", "s", NO_LIMIT, _LATE),
                Query(_seconds("group_wait"), f"{_ONE} {{{{group}}}} {{{{scope}}}}"),
            ),
        ),
    )  # fmt: skip


def _progress() -> Row:
    diverged = Limits("any: loss or gradient was not finite", ((1e-9, "red"),))
    pauses = Limits("none: compare with the time of a step")
    return Row(
        "Progress",
        (
            graph(
                Text("Loss", "Of the last step.", "none", NO_LIMIT),
                Query(f"gpudiag_train_loss{{{RANK}}}", _ONE),
                zero=False,
            ),
            graph(
                Text("Gradient norm", "Of the last step.", "none", NO_LIMIT),
                Query(f"gpudiag_train_grad_norm{{{RANK}}}", _ONE),
            ),
            graph(
                Text("Steps that were not finite", "Per second.", "cps", diverged),
                Query(f"rate(gpudiag_train_nonfinite_total{{{RANK}}}[$__rate_interval])", _ONE),
            ),
            graph(
                Text("Tokens", "Per second, the whole job.", "short", NO_LIMIT),
                Query(
                    f"sum by (job) (rate(gpudiag_train_tokens_total{{{RANK}}}[$__rate_interval]))",
                    "{{job}}",
                ),
            ),
            graph(
                Text("Samples", "Per second, the whole job.", "short", NO_LIMIT),
                Query(
                    f"sum by (job) (rate(gpudiag_train_samples_total{{{RANK}}}[$__rate_interval]))",
                    "{{job}}",
                ),
            ),
            graph(
                Text(
                    "Checkpoints and garbage collection", "The last in the interval.", "s", pauses
                ),
                Query(_seconds("checkpoint"), f"{_ONE} checkpoint"),
                Query(f"gpudiag_checkpoint_upload_seconds{{{RANK}}}", f"{_ONE} upload"),
                Query(_seconds("gc_pause"), f"{_ONE} garbage collection"),
            ),
        ),
    )
