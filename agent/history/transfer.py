"""One answer over HTTP: bounded in bytes and seconds, retried where that can help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import httpx

from gpudiag.agent.history.failing import ServerError, TooMuch

RETRIED = (429, 502, 503, 504)
_REDIRECTS = (301, 302, 303, 307, 308)
_MAX_REDIRECTS = 5
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@dataclass(frozen=True, slots=True)
class Patience:
    """What one question may cost. `seconds` is the whole time of one try, `silence` that of one
    wait for a byte; tries are `backoff`, 2 x `backoff`, ... apart, or as the server asks.
    """

    seconds: float = 120.0
    silence: float = 60.0
    max_bytes: int = 32 * 1024**2
    tries: int = 4
    backoff: float = 0.5
    longest_wait: float = 15.0


class _Busy(Exception):
    """The server said that it may answer later."""

    def __init__(self, status: int, body: bytes, wait: float) -> None:
        super().__init__(status)
        self.answer = status, body
        self.wait = wait


class Transfer:
    """Questions over one pool of connections."""

    def __init__(
        self,
        http: httpx.Client,
        patience: Patience,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
    ) -> None:
        self.http = http
        self._patience = patience
        self._sleep = sleep
        self._monotonic = monotonic

    def fetch(self, method: str, url: str, query: str) -> tuple[int, bytes]:
        """Status and body. Raises `httpx.HTTPError`, `TooMuch` or `ServerError`."""
        wait = self._patience.backoff
        for left in reversed(range(self._patience.tries)):
            try:
                return self._followed(method, url, query)
            except _Busy as busy:
                if not left:
                    return busy.answer
                self._sleep(min(max(wait, busy.wait), self._patience.longest_wait))
            except httpx.TransportError as error:
                # What took its whole time once would take it again.
                if not left or isinstance(error, httpx.ReadTimeout | httpx.UnsupportedProtocol):
                    raise
                self._sleep(min(wait, self._patience.longest_wait))
            wait *= 2.0
        raise AssertionError("a try either answers or raises")

    def _followed(self, method: str, url: str, query: str) -> tuple[int, bytes]:
        home = url
        for _ in range(_MAX_REDIRECTS):
            status, body, location = self._once(method, url, query)
            if status not in _REDIRECTS:
                return status, body
            url = _within(home, urljoin(url, location))
        raise ServerError(f"{_host(home)} redirects in a circle: name the final address")

    def _once(self, method: str, url: str, query: str) -> tuple[int, bytes, str]:
        timeout = httpx.Timeout(self._patience.silence, connect=10.0)
        started = self._monotonic()
        if method == "GET":
            request = self.http.build_request("GET", f"{url}?{query}", timeout=timeout)
        else:
            request = self.http.build_request(
                method, url, content=query, headers=_FORM, timeout=timeout
            )
        answer = self.http.send(request, stream=True)
        try:
            body = self._body(answer, started, url)
        finally:
            answer.close()
        # A query that ran out of its time would do so again: less must be asked for.
        if answer.status_code in RETRIED and b'"timeout"' not in body:
            raise _Busy(answer.status_code, body, _asked_wait(answer))
        return answer.status_code, body, answer.headers.get("location", "")

    def _body(self, answer: httpx.Response, started: float, url: str) -> bytes:
        body = bytearray()
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > self._patience.max_bytes:
                raise TooMuch(
                    f"{_host(url)} answers more than {self._patience.max_bytes // 1024**2} MiB at"
                    " once: ask for less with --since, --node or --job"
                )
            if self._monotonic() - started > self._patience.seconds:
                raise httpx.ReadTimeout(f"after {self._patience.seconds:g} s it had not ended")
        return bytes(body)


def _within(home: str, target: str) -> str:
    """Where a redirect leads, without its query; only on the same host, never to less than TLS."""
    old, new = urlsplit(home), urlsplit(target)
    upgrade = old.scheme == "http" and new.scheme == "https"
    if (
        new.hostname != old.hostname
        or not (upgrade or new.netloc == old.netloc)
        or (old.scheme == "https" and new.scheme != "https")
    ):
        raise ServerError(
            f"{_host(home)} redirects to {_host(target)}: not followed, for the credentials would"
            " go along; name that address yourself if you trust it"
        )
    return target.partition("?")[0]


def _asked_wait(answer: httpx.Response) -> float:
    asked = answer.headers.get("retry-after", "")
    return float(asked) if asked.isdecimal() else 0.0


def _host(url: str) -> str:
    return (urlsplit(url).hostname or "another address")[:100]
