"""Tells the cluster of a node's trouble by a condition on it; others decide what follows."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from gpudiag.agent import files
from gpudiag.agent.actions.contract import RUNGS, Ending, Plan, Result
from gpudiag.agent.findings.finding import subject_label
from gpudiag.agent.kubernetes import nodes
from gpudiag.agent.kubernetes.client import Api
from gpudiag.agent.kubernetes.errors import ApiError, Unclear
from gpudiag.agent.kubernetes.nodes import Condition
from gpudiag.agent.rules.contract import Rung

CLEAR = Condition(False, "NoProblem", "gpudiag finds no problem that its policy marks nodes for")


class Mark(msgspec.Struct, frozen=True):
    """Why a plan marks the node: a word for machines and a sentence for people."""

    reason: str
    message: str


class MarkNode:
    """One condition for all findings that mark the node, False again once the last is gone.

    The marks are in a file, so that an agent that restarts clears what it set. `cordon_most` is
    how many nodes of the cluster gpudiag may keep cordoned, 0 where it must not cordon any.
    """

    name = "mark_node"
    rung: Rung = RUNGS["mark_node"]
    reversible = True

    def __init__(
        self, api: Api, node: str, path: Path, now: Callable[[], float], cordon_most: int = 0
    ) -> None:
        self._api = api
        self._node = node
        self._path = path
        self._now = now
        self._most = cordon_most
        self._marks = _read(path)

    def unready(self, plan: Plan) -> str:
        """See `Lever`: the API server says whether it would take the condition."""
        try:
            marks = {**self._marks, plan.id: _mark(plan)}
            nodes.tell(self._api, self._node, self._condition(marks), self._now(), dry=True)
        except ApiError as error:
            return str(error)
        return ""

    def do(self, plan: Plan) -> Result:
        """See `Lever`."""
        before = self._marks
        # Kept first: an agent that dies in between then clears the condition all the same.
        self._keep({**before, plan.id: _mark(plan)})
        result = self._tell(self._condition(self._marks, first=not before))
        if result.ending is Ending.REFUSED:
            self._keep(before)
        if result.ending is not Ending.DONE:
            return result
        return Result(Ending.DONE, f"{result.detail}{self._cordoned()}")

    def undo(self, plan: Plan) -> Result:
        """See `Lever`: what other findings say of the node stands."""
        rest = {key: mark for key, mark in self._marks.items() if key != plan.id}
        result = self._tell(self._condition(rest))
        if result.ending is Ending.DONE and not rest and self._most:
            result = self._lifted(result)
        if result.ending is Ending.DONE:
            self._keep(rest)
        return result

    def _condition(self, marks: dict[str, Mark], *, first: bool = False) -> Condition:
        if not marks:
            return Condition(CLEAR.problem, CLEAR.reason, CLEAR.message, self._now())
        reasons = {mark.reason: None for mark in marks.values()}
        since = self._now() if first else None
        messages = "; ".join(mark.message for mark in marks.values())
        return Condition(True, next(iter(reasons)), messages, since)

    def _tell(self, condition: Condition) -> Result:
        try:
            try:
                nodes.tell(self._api, self._node, condition, self._now())
            except Unclear:
                # Twice the same is as good as once, so that asking again cannot hurt.
                nodes.tell(self._api, self._node, condition, self._now())
        except Unclear as error:
            return Result(Ending.FAILED, str(error))
        except ApiError as error:
            return Result(Ending.REFUSED, str(error))
        said = "True" if condition.problem else "False"
        return Result(Ending.DONE, f"node {self._node} has {nodes.CONDITION} {said}")

    def _cordoned(self) -> str:
        if not self._most:
            return ""
        try:
            why = nodes.cordon(self._api, self._node, self._most)
        except (ApiError, LookupError, TypeError) as error:
            why = str(error)
        return f", not cordoned: {why}" if why else ", and is cordoned"

    def _lifted(self, result: Result) -> Result:
        try:
            nodes.uncordon(self._api, self._node)
        except ApiError as error:
            return Result(Ending.FAILED, f"{result.detail}, but may still be cordoned: {error}")
        return result

    def _keep(self, marks: dict[str, Mark]) -> None:
        files.replace(self._path, msgspec.json.encode(marks))
        self._marks = marks


def _mark(plan: Plan) -> Mark:
    words = re.split(r"[^A-Za-z0-9]+", f"{plan.symptom} {plan.cause}")
    reason = "".join(word[:1].upper() + word[1:] for word in dict.fromkeys(words))
    where = subject_label(plan.subject)
    return Mark(reason, f"{plan.symptom}/{plan.cause}" + (f" at {where}" if where else ""))


def _read(path: Path) -> dict[str, Mark]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Mark])
    except (OSError, msgspec.MsgspecError):
        return {}
