"""The lever that the cluster gives: evict the pod, so that its controller starts another."""

from __future__ import annotations

from gpudiag.agent.actions.contract import HANDS_OFF, RUNGS, Ending, Plan, Result
from gpudiag.agent.kubernetes.client import Api
from gpudiag.agent.kubernetes.errors import ApiError, Refused, Unclear
from gpudiag.agent.kubernetes.eviction import evict, taken, why_not
from gpudiag.agent.kubernetes.fate import Fate, fate
from gpudiag.agent.kubernetes.pods import Pod, Whose
from gpudiag.agent.rules.contract import Rung

_ODD = (LookupError, TypeError, ValueError, AttributeError)
"""What an object of another form than documented leads to."""


class EvictPod:
    """Evicts the pod that the plan's target runs in, where a controller starts another.

    Pods created since the plan was made are never evicted: the symptom was not theirs, and a plan
    carried out twice finds such a one.
    """

    name = "evict_pod"
    rung: Rung = RUNGS["evict_pod"]
    reversible = False

    def __init__(self, api: Api, whose: Whose) -> None:
        self._api = api
        self._whose = whose

    def unready(self, plan: Plan) -> str:
        """See `Lever`: asks for the pod, what follows its end, and whether its budget allows it."""
        found = self._found(plan)
        if isinstance(found, str):
            return found
        pod, _ = found
        try:
            evict(self._api, pod, dry=True)
        except Refused as no:
            return why_not(pod, no)
        except ApiError as error:
            return str(error)
        return ""

    def do(self, plan: Plan) -> Result:
        """See `Lever`."""
        found = self._found(plan)
        if isinstance(found, str):
            return Result(Ending.REFUSED, found)
        pod, then = found
        try:
            evict(self._api, pod)
        except Refused as no:
            return Result(Ending.REFUSED, why_not(pod, no))
        except Unclear as error:
            return self._looked(pod, then, error)
        except ApiError as error:
            return Result(Ending.REFUSED, str(error))
        return Result(Ending.DONE, f"pod {pod.name} is evicted: {then.says}")

    def undo(self, _plan: Plan) -> Result:
        """An eviction cannot be taken back."""
        return Result(Ending.REFUSED, "an eviction cannot be taken back")

    def _looked(self, pod: Pod, then: Fate, error: Unclear) -> Result:
        if taken(self._api, pod):
            return Result(Ending.DONE, f"pod {pod.name} is on its way out: {then.says}")
        # It may still be carried out after this look: never a refusal, which would be tried again.
        return Result(Ending.FAILED, f"{error}; pod {pod.name} was not seen to go")

    def _found(self, plan: Plan) -> tuple[Pod, Fate] | str:
        """The pod and what follows its end, or why it must not be evicted."""
        try:
            pod = self._whose(plan.target)
            if isinstance(pod, str):
                return pod
            if why := _spared(pod, plan):
                return why
            then = fate(pod, self._api.get)
        except ApiError as error:
            return f"what the eviction would lead to is not known: {error}"
        except _ODD as error:
            return f"the API told of the pod in another form: {type(error).__name__} {error}"
        return then.lost or (pod, then)


def _spared(pod: Pod, plan: Plan) -> str:
    label, off = HANDS_OFF
    if pod.labels.get(label) == off:
        return f"pod {pod.name} has the label {label}={off}: a person wants it left alone"
    if pod.deleting:
        return f"pod {pod.name} is on its way out already"
    if pod.phase in {"Succeeded", "Failed"}:
        return f"pod {pod.name} has ended ({pod.phase})"
    if pod.created > plan.made_at:
        return f"pod {pod.name} was created after this was planned: the symptom was another's"
    return ""
