"""The levers that inference servers really have over HTTP, as the calls of each.

Facts: vLLM's `/pause`, `/resume`, `/is_paused` and `/reset_prefix_cache` exist in its development
mode only (`VLLM_SERVER_DEV_MODE=1`); `mode=wait` lets requests in flight end, its default aborts
them. SGLang's `/pause_generation`, `/continue_generation` and `/flush_cache` want the admin key
where one is set. Triton unloads a model in explicit model control. TGI has no lever at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gpudiag.agent.actions.levers.calls import Call, Calls

Engine = Literal["vllm", "sglang", "triton", "tgi"]


@dataclass(frozen=True, slots=True)
class Server:
    """A server to act on: its address without a path, its kind, its admin key, Triton's model."""

    url: str
    engine: Engine
    key: str = ""
    model: str = ""


def flush_cache(server: Server) -> Calls | None:
    """Drops what can be computed again; the next prompts take longer."""
    if server.engine == "vllm":
        # It answers 200 and "success": false while requests hold blocks.
        drop = replace(_post(server, "/reset_prefix_cache"), must="success")
        return Calls(do=drop, before=_get(server, "/is_paused"))
    if server.engine == "sglang":
        return Calls(do=_post(server, "/flush_cache"), before=_get(server, "/health"))
    return None


def pause(server: Server) -> Calls | None:
    """No new requests until taken back; those in flight end first."""
    if server.engine == "vllm":
        return Calls(
            do=_post(server, "/pause?mode=wait"),
            undo=_post(server, "/resume"),
            before=_get(server, "/is_paused"),
        )
    if server.engine == "sglang":
        return Calls(
            do=_post(server, "/pause_generation", '{"mode": "in_place"}'),
            undo=_post(server, "/continue_generation", "{}"),
            before=_get(server, "/health"),
        )
    return None


def unload(server: Server) -> Calls | None:
    """Takes one model out of a Triton server that serves several."""
    if server.engine != "triton" or not server.model:
        return None
    model = f"/v2/repository/models/{server.model}"
    return Calls(
        do=_post(server, f"{model}/unload", "{}"),
        undo=_post(server, f"{model}/load", "{}"),
        before=_get(server, "/v2/health/live"),
    )


ACTIONS = {"flush_cache": flush_cache, "pause_server": pause, "unload_model": unload}
"""Which calls carry out which action."""


def calls(action: str, servers: Mapping[str, Server]) -> dict[str, Calls]:
    """By target (`server=chat`), for those servers that have the lever."""
    made = {f"server={name}": ACTIONS[action](server) for name, server in servers.items()}
    return {target: call for target, call in made.items() if call is not None}


def _post(server: Server, path: str, body: str = "") -> Call:
    return Call(server.url.rstrip("/") + path, "POST", _headers(server), body)


def _get(server: Server, path: str) -> Call:
    return Call(server.url.rstrip("/") + path, "GET", _headers(server))


def _headers(server: Server) -> dict[str, str]:
    key = {"Authorization": f"Bearer {server.key}"} if server.key else {}
    return {"Content-Type": "application/json", **key}
