"""The running agent as the director sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from gpudiag.agent.actions.contract import HANDS_OFF, Plan
from gpudiag.agent.config.acting import Maintenance
from gpudiag.agent.findings.finding import Finding
from gpudiag.agent.findings.remark_store import Remarks
from gpudiag.agent.live import Owner

PROGRESS = {
    "job": ("gpudiag_train_steps_total",),
    "server": ("gpudiag_serving_generation_tokens_total", "gpudiag_serving_requests_total"),
}
"""Counters that grow only while the subject works, the first that there is."""

RECHECK_SECONDS = 3.0
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Rules(Owner, Protocol):
    """The writer: it owns the window and runs the rules."""

    @property
    def evaluated_at(self) -> float: ...

    def refresh(self, seconds: float) -> bool: ...


class LiveWorld:
    """See `World`. `now` is the agent's clock in epoch seconds."""

    def __init__(
        self,
        writer: Rules,
        now: Callable[[], float],
        hold_file: Path,
        windows: Sequence[Maintenance],
        remarks: Remarks | None = None,
        pod_labels: Path | None = None,
    ) -> None:
        """`pod_labels` is the downward API's file of the own pod's labels."""
        self.now = now
        self._writer = writer
        self._hold_file = hold_file
        self._windows = windows
        self._remarks = remarks
        self._pod_labels = pod_labels

    def findings(self) -> Sequence[Finding]:
        """See `World`."""
        return self._writer.findings

    def input_age(self) -> float:
        """See `World`."""
        return self.now() - self._writer.evaluated_at

    def recheck(self, finding: str) -> Finding | None:
        """See `World`; rules that do not answer in time are no confirmation."""
        if not self._writer.refresh(RECHECK_SECONDS):
            return None
        return next((f for f in self._writer.findings if f.id == finding), None)

    def loaded(self, plan: Plan, since: float) -> bool | None:
        """See `World`."""
        subject = dict(plan.subject)
        seconds = max(1.0, self.now() - since)
        for key, counters in PROGRESS.items():
            if key not in subject:
                continue
            for counter in counters:
                with self._writer.lock:
                    grown = self._writer.engine.window.increase(
                        counter, seconds, **{key: subject[key]}
                    )
                if grown:
                    return any(point.value > 0 for point in grown)
        return None

    def opted_out(self, plan: Plan) -> str:
        """See `World`: the file stops all, one beside it named for the target only that; so do
        the pod's label and a person who acknowledged the finding.
        """
        own = self._hold_file.with_name(f"{self._hold_file.name}.{plan.target.replace('/', '_')}")
        for path in (self._hold_file, own):
            if path.exists():
                return f"{path} exists: a person wants it left alone"
        if self._pod_labels and (why := _labelled(self._pod_labels)):
            return why
        return _somebodys(self._remarks, plan.finding, self.now()) if self._remarks else ""

    def maintenance(self, now: float) -> str:
        """See `World`."""
        moment = time.gmtime(now)
        clock, day = time.strftime("%H:%M", moment), moment.tm_wday
        for window in self._windows:
            over_midnight = window.end <= window.start
            today = DAYS[day] in window.days and window.start <= clock
            if over_midnight:
                yesterday = DAYS[day - 1] in window.days and clock < window.end
                inside = today or yesterday
            else:
                inside = today and clock < window.end
            if inside:
                return f"maintenance until {window.end} UTC"
        return ""


def _labelled(path: Path) -> str:
    label, off = HANDS_OFF
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        # Who cannot read whether the pod may be acted on must take it that it may not.
        return f"whether the pod has the label {label}={off} is not known: {error}"
    if f'{label}="{off}"' in lines:
        return f"the pod has the label {label}={off}: a person wants it left alone"
    return ""


def _somebodys(remarks: Remarks, finding: str, now: float) -> str:
    # Who cannot read whether a person is on it must take it that one is.
    if remarks.trouble:
        return remarks.trouble
    said = remarks.acknowledgement(finding, now)
    if said is None:
        return ""
    until = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(said.until))
    return f"{said.by} is on it until {until}: `gpudiag findings withdraw` lets the agent act"
