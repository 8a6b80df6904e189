"""Templated HTTP calls: a gateway's queue limit, an Envoy health check, any webhook.

The configuration names address, method, headers and body; nothing of a label or a log goes in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import httpx
import msgspec

from gpudiag.agent.actions.contract import RUNGS, Ending, Plan, Result
from gpudiag.agent.rules.contract import Rung

SECONDS = 10.0
MAX_ANSWER = 64 * 1024


@dataclass(frozen=True, slots=True)
class Call:
    """One request; a header's value may be a secret and is never told.

    `must` names a key of the JSON answer that has to be true, where 200 alone does not mean yes.
    """

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    must: str = ""


@dataclass(frozen=True, slots=True)
class Calls:
    """What to send, what takes it back, and what is asked before (any 2xx will do)."""

    do: Call
    undo: Call | None = None
    before: Call | None = None


Client = Callable[[], httpx.Client]


def client() -> httpx.Client:
    """Follows no redirect: an answer must not choose whom the agent talks to next."""
    return httpx.Client(timeout=SECONDS, follow_redirects=False, trust_env=False)


def ended(call: Call, client: Client) -> Result:
    """Send it: done on 2xx, refused where provably nothing happened, else failed."""
    try:
        with (
            client() as http,
            http.stream(
                call.method, call.url, headers=dict(call.headers), content=call.body.encode()
            ) as answer,
        ):
            status = answer.status_code
            said = _start(answer) if call.must else b""
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL, ValueError) as error:
        return Result(Ending.REFUSED, f"{_host(call)} was not reached: {type(error).__name__}")
    except httpx.HTTPError as error:
        return Result(Ending.FAILED, f"{_host(call)} gave no answer: {type(error).__name__}")
    if not 200 <= status < 300:
        # A client's error and "too busy" say it was not taken; after a server's nobody knows.
        taken = status >= 500 and status != 503
        ending = Ending.FAILED if taken else Ending.REFUSED
        return Result(ending, f"{_host(call)} answered {status}")
    if call.must and not _true(said, call.must):
        return Result(Ending.REFUSED, f"{_host(call)} did not say that {call.must} is true")
    return Result(Ending.DONE, f"{_host(call)} answered {status}")


def _start(answer: httpx.Response) -> bytes:
    text = b""
    for piece in answer.iter_bytes():
        text += piece
        if len(text) >= MAX_ANSWER:
            break
    return text[:MAX_ANSWER]


def _true(text: bytes, key: str) -> bool:
    try:
        told = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return isinstance(told, dict) and told.get(key) is True


class HttpLever:
    """The calls configured for each target of one action."""

    def __init__(self, name: str, calls: Mapping[str, Calls], client: Client = client) -> None:
        self.name = name
        self.rung: Rung = RUNGS[name]
        self.reversible = any(call.undo for call in calls.values())
        self._calls = calls
        self._client = client

    def unready(self, plan: Plan) -> str:
        """See `Lever`."""
        calls = self._calls.get(plan.target)
        if calls is None:
            return f"no {self.name} is configured for {plan.target}"
        if calls.before is None:
            return ""
        asked = ended(calls.before, self._client)
        return "" if asked.ending is Ending.DONE else asked.detail

    def do(self, plan: Plan) -> Result:
        """See `Lever`."""
        return ended(self._calls[plan.target].do, self._client)

    def undo(self, plan: Plan) -> Result:
        """See `Lever`."""
        call = self._calls[plan.target].undo
        if call is None:
            return Result(Ending.DONE, "nothing was configured to take it back")
        return ended(call, self._client)


def _host(call: Call) -> str:
    try:
        return httpx.URL(call.url).host or "the address"
    except httpx.InvalidURL:
        return "the address"
