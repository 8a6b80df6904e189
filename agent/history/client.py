"""The HTTP API that Prometheus, VictoriaMetrics, Thanos and Mimir share, asked with patience."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx

from gpudiag.agent.history import answers
from gpudiag.agent.history.access import Access
from gpudiag.agent.history.answers import Answer, Envelope
from gpudiag.agent.history.failing import (
    ServerError,
    TooMuch,
    is_too_much,
    refusal,
    spoken,
    unreachable,
)
from gpudiag.agent.history.transfer import Patience, Transfer
from gpudiag.probes import Labels

Parameters = list[tuple[str, str]]

MAX_POINTS = 11_000
"""Points a Prometheus gives per series of one range query; more is an error there."""

_URL_BYTES = 2000
"""Longer questions go as POST: proxies cut addresses from about 2 kB on."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Label sets or values, and what the server warned of."""

    found: tuple[Any, ...]
    warnings: tuple[str, ...] = ()


class Client:
    """One server. Each question costs bounded memory and time; may be shared by threads.

    Every method raises `TooMuch` where less must be asked for, else `ServerError`.
    """

    def __init__(
        self,
        access: Access,
        patience: Patience | None = None,
        *,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = access.url
        verify: ssl.SSLContext | bool = access.context() if access.url[:5] == "https" else False
        http = httpx.Client(
            headers={"User-Agent": "gpudiag", "Accept": "application/json", **access.headers},
            verify=verify,
            follow_redirects=False,
            transport=transport,
        )
        self._transfer = Transfer(http, patience or Patience(), sleep, monotonic)

    @property
    def url(self) -> str:
        """The address, without any secret."""
        return self._url

    def close(self) -> None:
        """Close the connections."""
        self._transfer.http.close()

    def instant(self, expr: str, at: float) -> Answer:
        """The value of `expr` at a time; of `selector[5m]` the samples as they were scraped."""
        return self._query("query", [("query", expr), ("time", _time(at))])

    def range(self, expr: str, start: float, end: float, step: float) -> Answer:
        """Its value at each `step` seconds, both ends with it; at most `MAX_POINTS` of them."""
        if step <= 0.0 or (end - start) / step >= MAX_POINTS:
            raise TooMuch(f"{self._url}: more than {MAX_POINTS} points of each series at once")
        between = [("start", _time(start)), ("end", _time(end)), ("step", f"{step:.3f}")]
        return self._query("query_range", [("query", expr), *between])

    def raw(self, selector: str, start: float, end: float) -> Answer:
        """The samples of `selector` in (start, end] with the times they were scraped at.

        Stale markers are left out by the server; a sample at `start` itself may come along.
        """
        span = max(1, round((end - start) * 1000.0))
        return self.instant(f"{selector}[{span}ms]", end)

    def series(self, matches: Sequence[str], start: float, end: float) -> Listed:
        """Name and labels of each series that any selector meets between two times."""
        envelope = self._ask("series", self._between(matches, start, end))
        rows = self._listed(envelope, list[dict[str, str]])
        found = tuple((row.pop(answers.NAME, ""), _labels(row)) for row in rows)
        return Listed(found, envelope.warned())

    def label_values(
        self, label: str, start: float, end: float, matches: Sequence[str] = ()
    ) -> Listed:
        """The values of one label; those of `__name__` are the names of metrics."""
        envelope = self._ask(f"label/{label}/values", self._between(matches, start, end), True)
        return Listed(tuple(self._listed(envelope, list[str])), envelope.warned())

    def metadata(self, path: str) -> Any:
        """What `/api/v1/PATH` gives as data (`status/buildinfo`), whatever it is."""
        return self._listed(self._ask(path, [], True), Any)

    def _between(self, matches: Sequence[str], start: float, end: float) -> Parameters:
        selectors = [("match[]", match) for match in matches]
        return [*selectors, ("start", _time(start)), ("end", _time(end))]

    def _query(self, what: str, parameters: Parameters) -> Answer:
        envelope = self._ask(what, parameters)
        try:
            return Answer(answers.series(envelope.data), envelope.warned())
        except ValueError as error:
            raise ServerError(f"{self._url} answers no series: {error}") from error

    def _listed(self, envelope: Envelope, of: Any) -> Any:
        try:
            return answers.listed(envelope.data, of)
        except ValueError as error:
            raise ServerError(f"{self._url} answers no list: {error}") from error

    def _ask(self, what: str, parameters: Parameters, get_only: bool = False) -> Envelope:
        url = f"{self._url}/api/v1/{what}"
        query = urlencode(parameters)
        method = "GET" if get_only or len(query) < _URL_BYTES else "POST"
        try:
            status, body = self._transfer.fetch(method, url, query)
        except httpx.HTTPError as error:
            raise ServerError(unreachable(self._url, error)) from error
        except (httpx.InvalidURL, ValueError) as error:
            raise ServerError(
                f"{self._url} sends to what is no address: check --prometheus"
            ) from error
        return self._understood(status, body)

    def _understood(self, status: int, body: bytes) -> Envelope:
        try:
            envelope = answers.envelope(body)
        except ValueError as error:
            raise ServerError(refusal(self._url, status, spoken(body))) from error
        if status == 200 and envelope.status == "success":
            return envelope
        said = answers.one_line(envelope.error or envelope.errorType)
        if is_too_much(status, said):
            raise TooMuch(f"{self._url} refuses so much at once: {said}")
        raise ServerError(refusal(self._url, status, said))


def matcher(names: Sequence[str], where: Mapping[str, str]) -> str:
    """A selector of several metrics with labels that equal given values."""
    alternatives = "|".join(names)
    pairs = [f'{answers.NAME}=~"{alternatives}"']
    pairs += [f"{label}={quoted(value)}" for label, value in where.items()]
    return "{" + ",".join(pairs) + "}"


def quoted(text: str) -> str:
    """`text` as a string of PromQL."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _labels(pairs: Mapping[str, str]) -> Labels:
    return tuple(sorted(pairs.items()))


def _time(at: float) -> str:
    return f"{at:.3f}"
