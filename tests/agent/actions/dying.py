"""Dying at a chosen moment of an action: before or after any write, pull or undo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudiag.agent.actions import audit, ledger
from tests.agent.actions.doubles import FakeLever


class Killed(BaseException):
    """SIGKILL, as far as a test in one process can have it: no handler sees it."""


class Moments:
    """Counts the moments that pass, and has `die` called at the one numbered `at`."""

    def __init__(self, at: int | None, die: Callable[[], object]) -> None:
        self.passed = 0
        self._at, self._die = at, die

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.moment()
            answer = work(*args, **kwargs)
            self.moment()
            return answer

        return watched

    def moment(self) -> None:
        if self.passed == self._at:
            self._die()
        self.passed += 1


def killed() -> None:
    raise Killed


PLACES = (
    (audit.Audit, "write"),
    (ledger.Ledger, "add"),
    (ledger.Ledger, "put"),
    (FakeLever, "do"),
    (FakeLever, "undo"),
)
