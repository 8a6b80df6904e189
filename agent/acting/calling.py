"""The levers that are HTTP calls, as configured."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpudiag.agent.actions.contract import Ending, Lever
from gpudiag.agent.actions.levers import calls, servers
from gpudiag.agent.actions.levers.calls import Call, Calls, HttpLever
from gpudiag.agent.config.acting import Actions, ActOn, Gateway, HttpCall

Secret = Callable[[str], str]


def floor(url: str) -> str:
    """Why no replica can be spared: asked of `url`, which answers 2xx where one can."""
    asked = calls.ended(Call(url, "GET"), calls.client)
    return (
        "" if asked.ending is Ending.DONE else f"no other replica can take the load: {asked.detail}"
    )


def levers(config: Actions, secret: Secret) -> list[Lever]:
    """Those of the configured servers and gateways."""
    known = {name: _server(named, secret) for name, named in config.servers.items()}
    made: list[Lever] = []
    for action in servers.ACTIONS:
        if of := servers.calls(action, known):
            made.append(HttpLever(action, of))
    if gateways := {target: _calls(g, secret) for target, g in config.gateways.items()}:
        made.append(HttpLever("gateway", gateways))
    return made


def _server(named: ActOn, secret: Secret) -> servers.Server:
    return servers.Server(named.url, named.engine, secret(named.key), named.model)


def _calls(gateway: Gateway, secret: Secret) -> Calls:
    undo = _call(gateway.undo, secret) if gateway.undo else None
    before = _call(gateway.before, secret) if gateway.before else None
    return Calls(_call(gateway.do, secret), undo, before)


def _call(call: HttpCall, secret: Secret) -> Call:
    headers: Mapping[str, str] = {name: secret(value) for name, value in call.headers.items()}
    return Call(call.url, call.method, headers, call.body)
