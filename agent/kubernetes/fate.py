"""What follows a pod's end: who starts another, and whether they still may.

Kubernetes counts an evicted pod of a Job as failed, unless its podFailurePolicy ignores pods with
the condition DisruptionTarget, which an eviction sets. A Job that has used its retries fails; a
JobSet then restarts all its Jobs, or fails once `maxRestarts` are used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpudiag.agent.kubernetes.client import Object
from gpudiag.agent.kubernetes.pods import Owner, Pod, owner

QUEUE = "kueue.x-k8s.io/queue-name"
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
RETRIES = 6
"""A Job's backoffLimit where it names none."""

Get = Callable[[str], Object]


@dataclass(frozen=True, slots=True)
class Fate:
    """`lost` is why the pod would not come back, "" where it does; `says` is what a person reads.

    `queue` is Kueue's, "" without one.
    """

    says: str
    lost: str = ""
    queue: str = ""


def fate(pod: Pod, get: Get) -> Fate:
    """What would follow the pod's eviction; raises `ApiError` where its Job cannot be asked for."""
    found = _by_owner(pod, get)
    queue = found.queue or pod.labels.get(QUEUE, "")
    if not queue:
        return found
    return Fate(f"{found.says}; Kueue's queue {queue} may admit it anew", found.lost, queue)


def _by_owner(pod: Pod, get: Get) -> Fate:
    by = pod.owner
    if by is None or by.kind == "Node":
        lost = f"no controller would start pod {pod.name} again"
        return Fate(lost, lost)
    named = f"{by.kind} {by.name}"
    if by.kind == "Job":
        return _job(pod, by, get)
    if by.kind == "StatefulSet":
        return Fate(f"{named} starts it again under the same name")
    if by.kind == "DaemonSet":
        return Fate(f"{named} starts it again on the same node")
    return Fate(f"{named} decides what it starts instead")


def _job(pod: Pod, by: Owner, get: Get) -> Fate:
    job = get(by.path(pod.namespace))
    spec, queue = job["spec"], _queue(job)
    if spec.get("suspend"):
        lost = f"Job {by.name} is suspended and starts no pod"
        return Fate(lost, lost, queue)
    does = _on_disruption(spec)
    if does in {"FailJob", "FailIndex"}:
        return _failed(pod, job, f"Job {by.name} counts a disruption as its end ({does})", get)
    if does == "Ignore":
        return Fate(f"Job {by.name} starts another and does not count this one", queue=queue)
    used, limit = _retries(pod, job)
    if used < limit:
        return Fate(
            f"Job {by.name} starts another: {used} of {limit} retries are used", queue=queue
        )
    return _failed(pod, job, f"Job {by.name} has used its {limit} retries", get)


def _failed(pod: Pod, job: Object, why: str, get: Get) -> Fate:
    """What becomes of a Job that fails: nothing more, but for a JobSet."""
    by = owner(job)
    if by is None or by.kind != "JobSet":
        return Fate(why, f"{why}: nothing would be started again", _queue(job))
    jobset = get(by.path(pod.namespace))
    status, policy = jobset.get("status", {}), jobset["spec"].get("failurePolicy") or {}
    used = int(status.get("restartsCountTowardsMax") or status.get("restarts") or 0)
    limit = int(policy.get("maxRestarts") or 0)
    queue = _queue(jobset) or _queue(job)
    if used < limit:
        says = f"{why}; JobSet {by.name} restarts all its Jobs: {used} of {limit} times so far"
        return Fate(says, queue=queue)
    lost = f"{why}, and JobSet {by.name} its {limit} restarts: nothing would be started again"
    return Fate(lost, lost, queue)


def _retries(pod: Pod, job: Object) -> tuple[int, int]:
    spec = job["spec"]
    if (limit := spec.get("backoffLimitPerIndex")) is not None:
        return int(pod.annotations.get(INDEX_FAILURES) or 0), int(limit)
    limit = spec.get("backoffLimit")
    used = int(job.get("status", {}).get("failed") or 0)
    return used, RETRIES if limit is None else int(limit)


def _on_disruption(spec: Object) -> str:
    """The action of the first rule that an eviction matches; "" where none does."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            if condition.get("type") == "DisruptionTarget":
                return str(rule["action"])
    return ""


def _queue(told: Object) -> str:
    return str((told["metadata"].get("labels") or {}).get(QUEUE, ""))
