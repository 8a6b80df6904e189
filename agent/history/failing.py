"""What a server refuses or breaks, in one clear line that says what to do next."""

from __future__ import annotations

import re
import ssl

import httpx

from gpudiag.agent.history.answers import one_line
from gpudiag.probes.errors import GpudiagError

_TOO_MUCH = re.compile(
    "too many (samples|points|series|chunks)|exceeded maximum resolution|max-?samples|limit"
    "|max.{0,20}points|memory|too (large|long)|exceed|timed out|timeout",
    re.IGNORECASE,
)


class ServerError(GpudiagError):
    """The server gave nothing that can be used; the message names it and the next step."""


class TooMuch(ServerError):
    """Less at once may well be answered: halve the span, or ask for fewer series."""


def is_too_much(status: int, said: str) -> bool:
    """Whether an error means that fewer samples would be answered (Prometheus says 422 or 400)."""
    return status == 413 or (status in (400, 422, 500, 503) and bool(_TOO_MUCH.search(said)))


def refusal(url: str, status: int, said: str) -> str:
    """The line for an answer that is no success."""
    words = f": {said}" if said else ""
    if status in (401, 403):
        return (
            f"{url} refuses these credentials ({status}){words}: see --token-file,"
            " --basic-auth-file, --cert and --header-file"
        )
    if status == 404:
        return f"{url} has no Prometheus API (404): name the address above /api/v1"
    if 300 <= status < 400:
        return (
            f"{url} sends elsewhere ({status}){words}: name that address yourself if you trust it"
        )
    if status == 200:
        return f"what answers at {url} is no Prometheus{words}: check the address"
    return f"{url} answers {status}{words}"


def unreachable(url: str, error: httpx.HTTPError) -> str:
    """The line for a connection that failed, or an answer that never ended."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"{url}: TLS failed ({one_line(str(cause))}): see --ca, --cert and --key"
        cause = cause.__cause__ or cause.__context__
    why = one_line(str(error)) or type(error).__name__
    if isinstance(error, httpx.TimeoutException):
        return f"{url} does not answer in time ({why}): ask for less with --since, --node or --job"
    return f"{url} is not reached ({why}): check the address and whether the server runs"


def spoken(body: bytes) -> str:
    """The beginning of an answer that is no JSON, as one line; nothing where it is a page."""
    text = body[:400].decode("utf-8", "replace")
    return "" if "<" in text else one_line(text, 120)
