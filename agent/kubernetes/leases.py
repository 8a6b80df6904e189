"""The right to act as a Lease object of the cluster: one a target, in the agent's namespace."""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from gpudiag.agent.kubernetes.client import Api, Object
from gpudiag.agent.kubernetes.errors import ApiError, Refused
from gpudiag.agent.kubernetes.times import micro

log = logging.getLogger(__name__)

TARGET = "gpudiag/target"
"""The annotation that says in words what the lease's name is a digest of."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """Another's lease as it was first seen in this version, at `at` of the own monotonic clock."""

    version: str
    at: float


class KubernetesLease:
    """See `Lease` of the actions. A holder that died is waited out by this agent's own clock.

    The times in the object are the holder's, whose clock may be wrong by hours: a lease has run
    out once it did not change for its duration, as seen from here (as client-go's leader election
    does it). `holder` must be no other agent's name.
    """

    def __init__(
        self,
        api: Api,
        holder: str,
        now: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._holder = holder
        self._now = now
        self._monotonic = monotonic
        self._seen: dict[str, _Seen] = {}

    def hold(self, target: str, seconds: float) -> bool:
        """See `Lease.hold`; an answer that is unclear is a no, and the next asking finds out."""
        try:
            return self._take(target, max(1, math.ceil(seconds)))
        except ApiError as error:
            log.warning("no lease on %s: %s", target, error)
            return False

    def release(self, target: str) -> None:
        """Give it back at once; one that cannot be given back runs out by itself."""
        try:
            lease = self._read(target)
            if lease is not None and _holder(lease) == self._holder:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                self._api.send("PUT", self._path(target), lease)
        except ApiError as error:
            log.warning("the lease on %s was not given back: %s", target, error)

    def _take(self, target: str, seconds: int) -> bool:
        lease = self._read(target)
        try:
            if lease is None:
                self._api.send("POST", self._folder(), self._new(target, seconds))
            elif _holder(lease) in {"", self._holder} or self._run_out(target, lease):
                self._api.send("PUT", self._path(target), self._renewed(lease, seconds))
            else:
                return False
        except Refused as no:
            # Somebody else was faster by a moment: theirs is the lease.
            if no.status == 409:
                return False
            raise
        self._seen.pop(target, None)
        return True

    def _read(self, target: str) -> Object | None:
        try:
            return self._api.get(self._path(target))
        except Refused as no:
            if no.status == 404:
                return None
            raise

    def _run_out(self, target: str, lease: Object) -> bool:
        version, now = str(lease["metadata"]["resourceVersion"]), self._monotonic()
        seen = self._seen.get(target)
        if seen is None or seen.version != version:
            seen = self._seen[target] = _Seen(version, now)
        return now - seen.at >= float(lease["spec"].get("leaseDurationSeconds") or 0)

    def _new(self, target: str, seconds: int) -> Object:
        at = micro(self._now())
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": _name(target),
                "annotations": {TARGET: target},
                "labels": {"app.kubernetes.io/managed-by": "gpudiag"},
            },
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": seconds,
                "acquireTime": at,
                "renewTime": at,
                "leaseTransitions": 0,
            },
        }

    def _renewed(self, lease: Object, seconds: int) -> Object:
        spec, at = lease["spec"], micro(self._now())
        if _holder(lease) != self._holder:
            spec["acquireTime"] = at
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec |= {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": seconds,
            "renewTime": at,
        }
        # The version that was read goes along: the API refuses it if it is another by now.
        return lease

    def _folder(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self._api.account.namespace()}/leases"

    def _path(self, target: str) -> str:
        return f"{self._folder()}/{_name(target)}"


def _name(target: str) -> str:
    return f"gpudiag-{hashlib.sha256(target.encode()).hexdigest()[:24]}"


def _holder(lease: Object) -> str:
    return str(lease["spec"].get("holderIdentity") or "")
