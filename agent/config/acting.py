"""The section `actions`: how far the agent may go, and what it may do it with."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from gpudiag.agent.config.base import Duration, Section

Count = Annotated[int, msgspec.Meta(ge=1)]
ClockTime = Annotated[str, msgspec.Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class Budget(Section, frozen=True):
    """How many actions that change something may be taken in `window`, failed ones included."""

    window: Duration = Duration(86400.0)
    target: Count = 6
    job: Count = 6
    node: Count = 12
    restarts: Count = 2


class Maintenance(Section, frozen=True):
    """A time of the week, in UTC, in which people work and the agent does nothing."""

    start: ClockTime
    end: ClockTime
    days: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class LadderStep(Section, frozen=True):
    """One step of a ladder: the action, its promise, and how many evaluations must agree."""

    action: str
    promise: Duration
    hold: Count = 3
    carry: bool = False
    args: dict[str, str | float | int | bool] = {}


class ActOn(Section, frozen=True):
    """A server whose own levers may be used; `key` is its admin key, or `@file`."""

    url: str
    engine: Literal["vllm", "sglang", "triton", "tgi"]
    key: str = ""
    model: str = ""


class HttpCall(Section, frozen=True):
    """One HTTP request; a header's value may be `@file`."""

    url: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    headers: dict[str, str] = {}
    body: str = ""


class Gateway(Section, frozen=True):
    """The calls that limit a target at its gateway, take that back, and are asked before."""

    do: HttpCall
    undo: HttpCall | None = None
    before: HttpCall | None = None


class ListedCommand(Section, frozen=True):
    """A command, word by word; no shell reads it."""

    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    undo: tuple[str, ...] = ()
    timeout: Duration = Duration(60.0)


class Webhook(Section, frozen=True):
    """Where decisions are told besides the audit file; a header's value may be `@file`."""

    url: str
    format: Literal["slack", "alertmanager"] = "slack"
    headers: dict[str, str] = {}


class Actions(Section, frozen=True):
    """What may follow a finding; see the documented configuration for each key."""

    mode: Literal["off", "dry-run", "approve", "auto"] = "dry-run"
    token: str = ""
    cooldown: Duration = Duration(600.0)
    budget: Budget = Budget()
    breaker: Count = 3
    opt_out: str = "/run/gpudiag/hold"
    pod_labels: str = ""
    maintenance: tuple[Maintenance, ...] = ()
    lease: str = ""
    ladders: dict[str, tuple[LadderStep, ...]] = {}
    policy: dict[str, str] = {}
    workload: str = ""
    floor: str = ""
    servers: dict[str, ActOn] = {}
    gateways: dict[str, Gateway] = {}
    commands: dict[str, ListedCommand] = {}
    units: dict[str, str] = {}
    webhooks: tuple[Webhook, ...] = ()
