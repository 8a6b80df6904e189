"""Commands of the agent: taken at a step boundary, the same on all ranks where it names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpudiag.probes.errors import Unavailable
from gpudiag.probes.torch import wire
from gpudiag.probes.torch.guard import FAILURES

PENDING = 32

Answer = tuple[bool, str, dict[str, Any]]
"""Done or not, a sentence, fields."""
Handler = Callable[[dict[str, Any]], Answer]


class Commands:
    """`at_once` are answered by the helper thread also while the main thread is blocked, the
    rest wait for `run`. `hurry()` asks for the next boundary.
    """

    def __init__(
        self,
        at_once: Mapping[str, Handler],
        at_boundary: Mapping[str, Handler],
        reply: Callable[[dict[str, Any]], object],
        hurry: Callable[[], object],
    ) -> None:
        self._at_once = at_once
        self._at_boundary = at_boundary
        self._reply = reply
        self._hurry = hurry
        self._pending: list[dict[str, Any]] = []

    def came(self, packet: dict[str, Any]) -> None:
        """A packet from the agent; other kinds than commands are passed over."""
        if packet.get("kind") != "command":
            return
        name = str(packet.get("name"))
        if name in self._at_once:
            self._do(self._at_once[name], packet)
        elif name not in self._at_boundary:
            self._refuse(packet, f"no command {name!r} here; update the hooks")
        elif len(self._pending) >= PENDING:
            self._refuse(packet, "too many commands wait for a step boundary")
        else:
            self._pending.append(packet)
            self._hurry()

    def run(self, step: int) -> None:
        """Carry out what is due at the end of step number `step`."""
        # The helper appends meanwhile: take from the front only what was there.
        for _ in range(len(self._pending)):
            packet = self._pending.pop(0)
            at = packet.get("at_step")
            if at is None or at == step:
                self._do(self._at_boundary[packet["name"]], packet)
            elif at < step:
                why = f"step {at} is past, this rank ended step {step}"
                self._refuse(packet, why, ended_step=step)
            else:
                self._pending.append(packet)
        if self._pending:
            self._hurry()

    def _do(self, handler: Handler, packet: dict[str, Any]) -> None:
        try:
            ok, detail, fields = handler(packet.get("args") or {})
        except Unavailable as error:
            ok, detail, fields = False, str(error), {}
        except Exception as error:
            FAILURES.note(f"command {packet.get('name')}", error)
            ok, detail, fields = False, f"{type(error).__name__}: {error}", {}
        self._reply(wire.reply(str(packet.get("id")), ok, detail, **fields))

    def _refuse(self, packet: dict[str, Any], why: str, **fields: Any) -> None:
        self._reply(wire.reply(str(packet.get("id")), False, why, **fields))
