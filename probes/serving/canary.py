"""Whether servers answer right: one minimal request to each, compared with a recorded answer."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gpudiag.probes import Record
from gpudiag.probes.errors import Unavailable
from gpudiag.probes.serving.baselines import Baselines, Judged
from gpudiag.probes.serving.canary_ask import Result, ask
from gpudiag.probes.serving.canary_budget import Budget
from gpudiag.probes.serving.canary_fetch import Exchange
from gpudiag.probes.serving.canary_target import Target
from gpudiag.probes.serving.canary_telling import METRICS, Teller
from gpudiag.probes.serving.compare import Answer

CADENCE = 60.0
GRACE_SECONDS = 2.0
"""Beyond its time limit a request may hang in a name look-up, which nothing can end."""


class Canary:
    """Asks all targets at once, each within its own limit; `read` lasts as long as the slowest.

    A server that is `busy` (told by its name) is not asked, nor is one whose budget is spent: that
    is absent and counted, never a failure.
    """

    name = "canary"
    metrics = METRICS

    def __init__(
        self,
        targets: Sequence[Target],
        folder: Path,
        *,
        requests_per_hour: int,
        tokens_per_hour: int,
        busy: Callable[[str], bool] = lambda _: False,
        now: Callable[[], float] = time.time,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.cadence = CADENCE
        self._targets = targets
        self._baselines = Baselines(folder / "baselines")
        self._budget = Budget(
            folder / "budget.json", requests=requests_per_hour, tokens=tokens_per_hour
        )
        self._busy = busy
        self._now = now
        self._environ = environ
        # Who has a baseline has taken this very request before.
        self._tellers = {
            one.name: Teller(one.name, one.api, proven=self._baselines.of(one) is not None)
            for one in targets
        }
        self._asking: dict[str, _Asking] = {}

    def read(self) -> Iterator[Record]:
        """What came of asking each server. Raises `Unavailable` where none is configured."""
        if not self._targets:
            raise Unavailable("no server is named in probes.canary.servers")
        refused = {target.name: self._begin(target) for target in self._targets}
        self._budget.save()
        for target in self._targets:
            result = refused[target.name] or self._asking[target.name].result()
            yield from self._judged(target, result)

    def close(self) -> None:
        """End what is being asked."""
        for asking in list(self._asking.values()):
            asking.abort()

    def _begin(self, target: Target) -> Result | None:
        """Start asking; else why not."""
        before = self._asking.get(target.name)
        if before is not None and before.alive:
            return Result("timeout", "the request before has not returned yet")
        if self._busy(target.name):
            return Result("busy", "requests wait before it, and it works on them")
        if not self._budget.take(target.name, target.cost(), self._now()):
            return Result("over_budget", "its requests or tokens of this hour are spent")
        self._asking[target.name] = _Asking(target, self._environ)
        return None

    def _judged(self, target: Target, result: Result) -> Iterator[Record]:
        judged = Judged()
        answer = result.answer
        if result.outcome == "ok" and answer is not None:
            missed = _unexpected(target, answer)
            if missed:
                judged = Judged(self._baselines.compared(target, answer))
                result = result.turned("differs", missed)
            else:
                judged = self._baselines.judge(target, answer, result.model, result.version)
                result = _differing(target, result, judged.likeness)
        elif result.outcome == "garbage" and self._baselines.compared(target, Answer()) is not None:
            judged = Judged(0.0)
        yield from self._tellers[target.name].tell(result, judged, self._now())


class _Asking:
    """One request under way, in a thread that holds up nobody's exit."""

    def __init__(self, target: Target, environ: Mapping[str, str]) -> None:
        self._target = target
        self._environ = environ
        self._until = time.monotonic() + target.timeout
        self._exchange = Exchange(target.url, self._until)
        self._result: Result | None = None
        self._thread = threading.Thread(target=self._ask, name="canary", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def result(self) -> Result:
        """Its result, waited for until its time is up."""
        self._thread.join(max(0.0, self._until + GRACE_SECONDS - time.monotonic()))
        late = self._result is None
        if late:
            self.abort()
        if self._result is None or self._result.outcome == "timeout":
            return Result("timeout", f"no whole answer within {self._target.timeout:g} s")
        return self._result

    def abort(self) -> None:
        self._exchange.abort()

    def _ask(self) -> None:
        self._result = ask(self._target, self._exchange, environ=self._environ)


def _unexpected(target: Target, answer: Answer) -> str:
    if not target.expect:
        return ""
    if answer.label:
        right = answer.label.casefold() == target.expect.casefold()
    else:
        right = target.expect.casefold() in answer.text.casefold()
    return "" if right else f"{target.expect!r} was expected, not {answer.label or answer.text!r}"


def _differing(target: Target, result: Result, likeness: float | None) -> Result:
    if likeness is None or likeness >= 1.0 - target.tolerance:
        return result
    said = result.answer.label or result.answer.text if result.answer else ""
    quoted = f": {said!r}" if said else ""
    return result.turned("differs", f"its likeness to the baseline is {likeness:.2f}{quoted}")
