"""Requests to the cluster's API, each on a connection of its own, with a limit on its time."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from gpudiag.agent.kubernetes.account import Account
from gpudiag.agent.kubernetes.errors import NotReached, Refused, Unclear

MAX_ANSWER = 16 * 1024**2
"""Bytes: a node's list of pods is a few MiB where pods are many and large."""
MAX_MESSAGE = 300

Method = Literal["GET", "POST", "PUT", "PATCH"]
Object = dict[str, Any]

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
"""Merges lists by their key, as a node's conditions by `type`: others' stay as they are."""


class Api:
    """Any thread may ask; `timeout` in seconds is for connecting, and again for the answer.

    http.client rather than a client library: it tells apart what was never sent, and costs an
    agent beside somebody's job no memory.
    """

    def __init__(self, account: Account, timeout: float) -> None:
        self.account = account
        self._timeout = timeout

    def get(self, path: str) -> Object:
        """The object at `path`; raises `ApiError`."""
        return self.send("GET", path)

    def send(
        self, method: Method, path: str, body: Object | None = None, kind: str = "application/json"
    ) -> Object:
        """The answer's object; raises `NotReached`, `Unclear` or `Refused`."""
        token = self.account.token()
        status, headers, raw = self._exchange(method, path, body, kind, token)
        # 401 is said before anything is done: it may be sent again.
        if status == 401 and (renewed := self.account.token()) != token:
            status, headers, raw = self._exchange(method, path, body, kind, renewed)
        return _understood(status, headers, raw)

    def watch(self, path: str, seconds: int) -> Iterator[Object]:
        """Each change as `{"type", "object"}` until the API ends it, after `seconds` at most.

        Raises `ApiError`, also between two changes.
        """
        headers = {"Accept": "application/json", "Authorization": f"Bearer {self.account.token()}"}
        with self._connected() as connection:
            connection.sock.settimeout(seconds + self._timeout)
            try:
                connection.request(
                    "GET", f"{path}&watch=true&timeoutSeconds={seconds}", None, headers
                )
                answer = connection.getresponse()
                if answer.status != 200:
                    _understood(answer.status, answer.headers, answer.read(MAX_ANSWER))
                while line := answer.readline(MAX_ANSWER):
                    yield json.loads(line)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise Unclear(f"the Kubernetes API broke off a watch: {error!r}") from error

    def _exchange(
        self, method: Method, path: str, body: Object | None, kind: str, token: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {token}"}
        sent = None
        if body is not None:
            sent, headers["Content-Type"] = json.dumps(body).encode(), kind
        with self._connected() as connection, _limited(connection, self._timeout) as over:
            try:
                connection.request(method, path, sent, {"User-Agent": "gpudiag", **headers})
                answer = connection.getresponse()
                return answer.status, answer.headers, answer.read(MAX_ANSWER)
            except (OSError, http.client.HTTPException, ValueError) as error:
                # The socket's own limit and the whole one run out together: one word for both.
                what = "TimeoutError" if over.is_set() else type(error).__name__
                raise Unclear(f"the Kubernetes API gave no answer to {method}: {what}") from error

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPSConnection]:
        account = self.account
        where = f"the Kubernetes API at {account.host}:{account.port}"
        connection = http.client.HTTPSConnection(
            account.host, account.port, timeout=self._timeout, context=account.trust()
        )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            why = f"{where} has a certificate that {account.folder}/ca.crt does not vouch for"
            raise NotReached(f"{why}: {error.verify_message}") from error
        except OSError as error:
            raise NotReached(f"{where} was not reached: {error}") from error
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def _limited(connection: http.client.HTTPSConnection, seconds: float) -> Iterator[threading.Event]:
    """The socket's own limit is for each piece, and pieces may come for ever."""
    over = threading.Event()
    timer = threading.Timer(seconds, _shut, (connection.sock, over))
    timer.daemon = True
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()


def _shut(connected: socket.socket, over: threading.Event) -> None:
    over.set()
    try:
        # TLS's own shutdown would drop the state that the reading thread stands in.
        socket.socket.shutdown(connected, socket.SHUT_RDWR)
    except OSError:
        return


def _understood(status: int, headers: http.client.HTTPMessage, raw: bytes) -> Object:
    try:
        told = json.loads(raw)
    except ValueError:
        told = None
    told = told if isinstance(told, dict) else {}
    message = str(told.get("message", ""))[:MAX_MESSAGE]
    if status >= 500:
        # Also 503: etcd may have taken a write whose answer was lost on its way to the API server.
        raise Unclear(f"the Kubernetes API answered {status}: {message}".removesuffix(": "))
    if not 200 <= status < 300:
        again = headers.get("Retry-After", "")
        after = float(again) if again.isdecimal() else None
        raise Refused(status, str(told.get("reason", "")), message, after)
    if not told:
        raise Unclear(f"the Kubernetes API answered {status}, and no object with it")
    return told
