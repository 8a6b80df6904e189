"""Tells each decision to webhooks, in Slack's or Alertmanager's words."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx

from gpudiag.agent.actions.audit import Line
from gpudiag.agent.actions.levers.calls import client
from gpudiag.agent.config.acting import Webhook
from gpudiag.agent.findings.finding import subject_label

log = logging.getLogger(__name__)

QUEUED = 100


class Teller:
    """Posts from a thread of its own: a webhook that hangs must not keep anybody from acting."""

    def __init__(
        self,
        webhooks: Sequence[Webhook],
        node: str,
        secret: Callable[[str], str],
        http: Callable[[], httpx.Client] = client,
    ) -> None:
        self._webhooks = webhooks
        self._node = node
        self._secret = secret
        self._http = http
        self._lines: queue.Queue[Line] = queue.Queue(QUEUED)
        threading.Thread(target=self._run, name="webhooks", daemon=True).start()

    def __call__(self, line: Line) -> None:
        """Queue one line; where a hundred wait already, it is dropped and the log says so."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            log.warning("webhooks are slow: a decision was not told, the audit file has it")

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            for webhook in self._webhooks:
                self._post(webhook, line)

    def _post(self, webhook: Webhook, line: Line) -> None:
        shape = BODIES[webhook.format]
        headers = {name: self._secret(value) for name, value in webhook.headers.items()}
        try:
            with self._http() as http:
                http.post(webhook.url, json=shape(line, self._node), headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            log.warning("a webhook was not reached: %s", type(error).__name__)


def slack(line: Line, node: str) -> dict[str, Any]:
    """One line of text, as Slack's incoming webhooks and those like them take it."""
    plan = line.plan
    text = f"gpudiag on {node}: {line.decision} {plan.action} at {plan.target}"
    return {"text": f"{text} for {plan.symptom}/{plan.cause} ({line.actor}): {line.why}"}


def alertmanager(line: Line, node: str) -> list[dict[str, Any]]:
    """One alert, as Alertmanager's `/api/v2/alerts` takes it."""
    plan = line.plan
    labels = {
        "alertname": "GpudiagAction",
        "severity": "info",
        "node": node,
        "symptom": plan.symptom,
        "cause": plan.cause,
        "subject": subject_label(plan.subject),
        "action": plan.action,
        "outcome": line.decision,
    }
    summary = f"{line.decision} {plan.action} at {plan.target}"
    return [
        {
            "labels": labels,
            "annotations": {"summary": summary, "description": line.why},
            "startsAt": datetime.fromtimestamp(line.time, UTC).isoformat(),
        }
    ]


BODIES: Mapping[str, Callable[[Line, str], Any]] = {"slack": slack, "alertmanager": alertmanager}
