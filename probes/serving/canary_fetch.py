"""One HTTP exchange with a configured server: bounded in time and size, no redirect, no proxy."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Literal
from urllib.parse import urlsplit

from gpudiag.probes.errors import GpudiagError

Outcome = Literal[
    "ok", "differs", "garbage", "refused", "timeout", "server_error", "truncated",
    "rejected", "misconfigured", "busy", "over_budget",
]  # fmt: skip

MAX_BYTES = 1024**2
"""Of an answer: an embedding of 16,384 numbers as text has some 350 kB."""

MAX_ERROR_BYTES = 4096
PIECE_BYTES = 65536
NOT_ALLOWED = frozenset({401, 403, 407})
BUSY = re.compile(
    r"overload|queue.{0,20}full|maximum queue size|too many|at capacity|rate limit", re.I
)


class Unanswered(GpudiagError):
    """No answer: `outcome` is the kind of reason, the text what was seen; `status` 0 is none."""

    def __init__(self, outcome: Outcome, detail: str, status: int = 0) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.status = status


class Exchange:
    """Requests to one address until `deadline` of `monotonic`; any thread may `abort` it."""

    def __init__(
        self,
        url: str,
        deadline: float,
        monotonic: Callable[[], float] = time.monotonic,
        limit: int = MAX_BYTES,
    ) -> None:
        self._limit = limit
        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port)
        self._prefix = parts.path.rstrip("/")
        self._deadline = deadline
        self._monotonic = monotonic
        self._socket: socket.socket | None = None

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Iterator[bytes]:
        """The pieces of the body of a good answer, as they come. Raises `Unanswered`."""
        try:
            with self._send(method, path, headers, body) as response:
                if not 200 <= response.status < 300:
                    raise self._refusal(response)
                coding = response.getheader("Content-Encoding") or "identity"
                if coding.lower() != "identity":
                    raise Unanswered("garbage", f"compressed ({coding}), which was not asked for")
                yield from self._pieces(response, self._limit)
        # Before OSError, of which both are kinds.
        except TimeoutError as error:
            raise Unanswered("timeout", "nothing came in time") from error
        except (ConnectionResetError, BrokenPipeError) as error:
            raise Unanswered("truncated", "the connection was reset") from error
        except ssl.SSLCertVerificationError as error:
            raise Unanswered("misconfigured", f"its certificate is not trusted: {error}") from error
        except OSError as error:
            raise Unanswered("refused", f"no connection: {error}") from error
        except (HTTPException, ValueError) as error:
            raise Unanswered("truncated", f"no whole HTTP answer: {error!r}"[:200]) from error

    def abort(self) -> None:
        """Wake up whoever waits for this exchange."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> HTTPResponse:
        self._connection.timeout = self._left()
        if self._connection.sock is None:
            self._connection.connect()
            self._socket = self._connection.sock
        self._wait_no_longer()
        # No compression: a small answer that unpacks to a huge one would pass every limit.
        whole = {"Accept": "application/json", "Accept-Encoding": "identity", **headers}
        self._connection.request(method, self._prefix + path, body, whole)
        self._wait_no_longer()
        return self._connection.getresponse()

    def _pieces(self, response: HTTPResponse, limit: int) -> Iterator[bytes]:
        taken = 0
        while True:
            self._wait_no_longer()
            piece = response.read1(PIECE_BYTES)
            if not piece:
                break
            taken += len(piece)
            if taken > limit:
                raise Unanswered("garbage", f"an answer of more than {limit} bytes")
            yield piece
        if response.length:
            raise Unanswered("truncated", f"{response.length} bytes of the answer are missing")

    def _refusal(self, response: HTTPResponse) -> Unanswered:
        status = response.status
        if 300 <= status < 400:
            target = response.getheader("Location", "elsewhere")[:200]
            return Unanswered(
                "misconfigured", f"HTTP {status}: a redirect to {target}, not followed"
            )
        text = self._beginning(response)
        # What is left of the body would stand before the next answer.
        self._connection.close()
        words = f"HTTP {status}: {text}" if text else f"HTTP {status}"
        if status == 429 or (status == 503 and BUSY.search(text)):
            return Unanswered("busy", words, status)
        if status in NOT_ALLOWED:
            return Unanswered("misconfigured", words, status)
        # TGI and TEI say 424 where the model behind them fails.
        outcome: Outcome = "rejected" if status < 500 and status != 424 else "server_error"
        return Unanswered(outcome, words, status)

    def _beginning(self, response: HTTPResponse) -> str:
        text = b""
        with contextlib.suppress(OSError, HTTPException, Unanswered):
            for piece in self._pieces(response, MAX_ERROR_BYTES):
                text += piece
        return " ".join(text.decode("utf-8", "replace").split())[:200]

    def _left(self) -> float:
        left = self._deadline - self._monotonic()
        if left <= 0.0:
            raise TimeoutError
        return left

    def _wait_no_longer(self) -> None:
        if self._socket is not None:
            self._socket.settimeout(self._left())
