"""What a canary's results become: samples that hold only while they are true, and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpudiag.probes import Event, Labels, Record, Sample, labels
from gpudiag.probes.serving.baselines import Judged
from gpudiag.probes.serving.canary_api import Api
from gpudiag.probes.serving.canary_ask import Result

OK = "gpudiag_canary_ok"
SIMILARITY = "gpudiag_canary_similarity_ratio"
SECONDS = "gpudiag_canary_seconds"
FIRST = "gpudiag_canary_ttft_seconds"
REQUESTS = "gpudiag_canary_requests_total"
INFO = "gpudiag_canary_info"
METRICS = frozenset({INFO, OK, SIMILARITY, SECONDS, FIRST, REQUESTS})

SKIPPED = frozenset({"busy", "over_budget", "misconfigured"})
"""Outcomes that say nothing of the server."""

REPEAT_SECONDS = 600.0
"""A failure that lasts is told again so often: rules look back on events for half an hour."""

MAX_SAID = 300


class Teller:
    """Turns the results of one server into records; remembers what it said before."""

    def __init__(self, server: str, api: Api, *, proven: bool = False) -> None:
        self._server = server
        self._info = labels(server=server, api=api.name, gives=api.gives)
        self._model = ""
        self._proven = proven
        self._given: set[tuple[str, Labels]] = set()
        self._counts: Counter[str] = Counter()
        self._told = "ok"
        self._told_at = 0.0

    def tell(self, result: Result, judged: Judged, now: float) -> Iterator[Record]:
        """The samples and events of one result, at `now`."""
        result = self._own_fault(result)
        self._counts[result.outcome] += 1
        self._model = result.model or self._model
        yield from self._samples(self._values(result, judged), now)
        yield Sample(INFO, self._info, now, 1.0)
        for outcome, count in self._counts.items():
            of = labels(server=self._server, outcome=outcome)
            yield Sample(REQUESTS, of, now, float(count))
        yield from self._events(result, judged, now)

    def _own_fault(self, result: Result) -> Result:
        """A request that was never taken is wrong itself; of one that was, the server is."""
        self._proven = self._proven or result.outcome == "ok"
        if result.outcome == "rejected" and not self._proven:
            return result.turned("misconfigured", result.detail)
        return result

    def _values(self, result: Result, judged: Judged) -> dict[str, float | None]:
        known = None if result.outcome in SKIPPED else float(result.outcome == "ok")
        return {
            OK: known,
            SIMILARITY: judged.likeness,
            SECONDS: result.seconds,
            FIRST: result.first,
        }

    def _samples(self, values: dict[str, float | None], now: float) -> Iterator[Sample]:
        named = {"server": self._server, **({"model": self._model} if self._model else {})}
        of = labels(**named)
        given = {(metric, of): value for metric, value in values.items() if value is not None}
        for metric, old in sorted(self._given - given.keys()):
            yield Sample(metric, old, now, float("nan"))
        for (metric, _), value in given.items():
            yield Sample(metric, of, now, value)
        self._given = set(given)

    def _events(self, result: Result, judged: Judged, now: float) -> Iterator[Event]:
        if judged.news:
            yield self._event(now, "canary_baseline", "ok", judged.news)
        outcome = result.outcome
        lasting = outcome not in SKIPPED | {"ok"} and now - self._told_at >= REPEAT_SECONDS
        if outcome == self._told and not lasting:
            return
        failed_before = self._told not in SKIPPED | {"ok"}
        self._told, self._told_at = outcome, now
        if outcome in SKIPPED:
            yield self._event(now, "canary_skipped", outcome, result.detail)
        elif outcome != "ok":
            yield self._event(now, "canary_failed", outcome, result.detail)
        elif failed_before:
            yield self._event(now, "canary_ok", outcome, "answered as it should again")

    def _event(self, now: float, kind: str, outcome: str, detail: str) -> Event:
        words = {
            "canary_failed": f"failed ({outcome.replace('_', ' ')})",
            "canary_skipped": f"not asked or not counted ({outcome.replace('_', ' ')})",
        }.get(kind, "")
        line = f"canary {self._server} {words}".rstrip() + f": {detail[:MAX_SAID]}"
        fields = {"server": self._server, "outcome": outcome, "model": self._model}
        return Event(now, "serving", line, kind, fields)
