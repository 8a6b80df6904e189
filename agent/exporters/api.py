"""The JSON API: findings, series, probes and actions of the running agent, to read only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gpudiag.agent.exporters.answering import answered
from gpudiag.agent.exporters.prometheus import Renderer
from gpudiag.agent.exporters.view import Reading, Snapshot, Snapshots
from gpudiag.agent.findings.finding import Finding, State
from gpudiag.probes.catalog import metrics, symptoms
from gpudiag.probes.errors import GpudiagError, UsageError

RECENT_SECONDS = 30.0
"""How fresh a probe's last success must be for the agent to count as sampling."""

LONGEST_SECONDS = 48 * 3600.0

STATES = (*get_args(State), "unknown")

_ANY_LABEL = "LABEL"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path below `/api/v1/`: what it answers and the query parameters that it takes."""

    path: str
    about: str
    parameters: Mapping[str, str]
    answer: Callable[[Snapshots, Request], Any]

    def refuse_unknown(self, request: Request) -> None:
        """Raise `UsageError` for a parameter that would be passed over in silence."""
        unknown = request.query_params.keys() - self.parameters.keys()
        if unknown and _ANY_LABEL not in self.parameters:
            takes = ", ".join(self.parameters) or "no parameters"
            raise UsageError(f"{self.path} does not take {min(unknown)[:100]!r}; it takes {takes}")


def routes(snapshots: Snapshots) -> list[Route]:
    """The machine-readable part of the HTTP interface; GET and HEAD only."""
    renderer = Renderer(snapshots)

    async def scrape(request: Request) -> Response:
        headers = request.headers
        answer = renderer.render(headers.get("accept", ""), headers.get("accept-encoding", ""))
        kept = {"Content-Type": answer.content_type, "Vary": "Accept, Accept-Encoding"}
        if answer.encoding:
            kept["Content-Encoding"] = answer.encoding
        return Response(answer.body, headers=kept)

    async def healthz(_: Request) -> Response:
        return answered({"status": "alive"})

    async def readyz(_: Request) -> Response:
        reason = why_not_ready(snapshots.get())
        return answered({"ready": not reason, "reason": reason}, 503 if reason else 200)

    async def index(_: Request) -> Response:
        return answered({"endpoints": [_described(endpoint) for endpoint in ENDPOINTS]})

    def answering(endpoint: Endpoint) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            try:
                endpoint.refuse_unknown(request)
                return answered(endpoint.answer(snapshots, request))
            except UsageError as error:
                return answered({"error": str(error), "parameters": endpoint.parameters}, 400)
            except GpudiagError as error:
                return answered({"error": str(error)}, 503)

        return answer

    return [
        Route("/metrics", scrape),
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/api/v1/", index),
        *(Route(endpoint.path, answering(endpoint)) for endpoint in ENDPOINTS),
    ]


def why_not_ready(snapshot: Snapshot) -> str:
    """Why the agent is not sampling; empty when it is."""
    if snapshot.info.replay:
        return "" if snapshot.samples else "the recording has not begun"
    newest = max((p.last_success or 0.0 for p in snapshot.probes if p.ok), default=0.0)
    if not newest:
        return "no probe has succeeded; see /api/v1/probes"
    if snapshot.now - newest > RECENT_SECONDS:
        return f"the last success of any probe was {snapshot.now - newest:.0f} s ago"
    return ""


def findings(snapshots: Snapshots, request: Request) -> dict[str, Any]:
    """`?state=` and `?symptom=` narrow the list; `unknown` holds what cannot be told.

    `?since=` and `?until=` (epoch seconds) look back instead: what fired in that time.
    """
    snapshot = snapshots.get()
    state = _choice(request, "state", STATES)
    symptom = _choice(request, "symptom", tuple(symptoms()))
    return {
        "now": snapshot.now,
        "findings": [
            f.to_json()
            for f in _asked(snapshots, snapshot, request)
            if state in ("", f.state) and symptom in ("", f.symptom)
        ],
        "unknown": [
            {"symptom": name, "state": "unknown", "missing": missing}
            for name, missing in snapshot.unknown
            if state in ("", "unknown") and symptom in ("", name)
        ],
    }


def _asked(snapshots: Snapshots, snapshot: Snapshot, request: Request) -> Iterable[Finding]:
    query = request.query_params
    if "since" not in query and "until" not in query:
        return snapshot.findings
    until = _moment(query.get("until", ""), snapshot.now)
    return snapshots.view.past(_moment(query.get("since", ""), until), until)


def _moment(text: str, default: float) -> float:
    try:
        return float(text) if text else default
    except ValueError as error:
        raise UsageError("since and until are epoch seconds") from error


def series(snapshots: Snapshots, request: Request) -> dict[str, Any]:
    """Every fresh series; with `?metric=M&seconds=S` (and label=value) its points in that time."""
    snapshot = snapshots.get()
    query = dict(request.query_params)
    metric = _choice(request, "metric", tuple(metrics()))
    seconds = _seconds(query.pop("seconds", ""))
    query.pop("metric", None)
    if (seconds or query) and not metric:
        raise UsageError("seconds and labels need a metric: ?metric=NAME&seconds=900&uuid=GPU-...")
    chosen = [
        reading
        for reading in snapshot.samples
        if metric in ("", reading[0]) and query.items() <= dict(reading[1]).items()
    ]
    return {"now": snapshot.now, "series": [_one(snapshots, r, seconds) for r in chosen]}


def events(snapshots: Snapshots, request: Request) -> dict[str, Any]:
    """Events of the last `?seconds=` (900), oldest first; `?source=` and `?type=` narrow them."""
    query = request.query_params
    seconds = _seconds(query.get("seconds", "900"))
    found = snapshots.view.events(seconds, query.get("source", ""), query.get("type", ""))
    return {"now": snapshots.get().now, "events": [asdict(event) for event in found]}


def actions(snapshots: Snapshots, _: Request) -> dict[str, Any]:
    """What the agent did or would have done, newest first."""
    return {"mode": snapshots.get().info.mode, "actions": []}


def probes(snapshots: Snapshots, _: Request) -> dict[str, Any]:
    """Who is speaking, and how each of its sources does."""
    snapshot = snapshots.get()
    return {"now": snapshot.now, "agent": snapshot.info, "probes": snapshot.probes}


def _one(snapshots: Snapshots, reading: Reading, seconds: float) -> dict[str, Any]:
    metric, pairs, time, value = reading
    row: dict[str, Any] = {"metric": metric, "labels": dict(pairs), "time": time, "value": value}
    if seconds:
        times, values = snapshots.view.history(metric, seconds, pairs)
        row["points"] = list(zip(times.tolist(), values.tolist(), strict=True))
    return row


def _choice(request: Request, key: str, allowed: tuple[str, ...]) -> str:
    value = request.query_params.get(key, "")
    if value and value not in allowed:
        listed = ", ".join(allowed) if len(allowed) < 10 else "those of the catalogue"
        raise UsageError(f"{key}={value[:100]!r} is not known; use one of {listed}")
    return value


def _seconds(text: str) -> float:
    try:
        seconds = float(text or 0.0)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds <= LONGEST_SECONDS:
        raise UsageError(f"seconds={text[:100]!r} must be a number from 0 to {LONGEST_SECONDS:.0f}")
    return seconds


def _described(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "path": endpoint.path,
        "about": endpoint.about,
        "parameters": endpoint.parameters,
    }


ENDPOINTS = (
    Endpoint(
        "/api/v1/findings",
        "What is or was wrong, with evidence and what to do next; what cannot be told.",
        {
            "state": "one of " + ", ".join(STATES),
            "symptom": "a symptom of the catalogue, such as gpu-xid; /runbooks/ lists them",
            "since": "epoch seconds: look back at what fired from then on",
            "until": "epoch seconds: look back at what fired up to then; default now",
        },
        findings,
    ),
    Endpoint(
        "/api/v1/series",
        "Every fresh series with its value, or one metric's series with their points.",
        {
            "metric": "a metric of the catalogue, such as gpudiag_gpu_power_watts",
            "seconds": f"with metric: points of so long a time back, at most {LONGEST_SECONDS:.0f}",
            _ANY_LABEL: "with metric: only series with this label value, such as uuid=GPU-...",
        },
        series,
    ),
    Endpoint(
        "/api/v1/events",
        "What happened: XIDs, exits of processes and ranks, checkpoints, restarts, log lines.",
        {
            "seconds": f"so long a time back, at most {LONGEST_SECONDS:.0f}; default 900",
            "source": "such as kmsg, process, torch, serving, action",
            "type": "such as xid, exit, checkpoint",
        },
        events,
    ),
    Endpoint("/api/v1/actions", "What the agent did or would have done.", {}, actions),
    Endpoint("/api/v1/probes", "Who is speaking, and how each source does.", {}, probes),
)
