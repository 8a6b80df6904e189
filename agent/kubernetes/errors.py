"""How a request to the cluster's API may end badly: what is sure and what is not."""

from __future__ import annotations

from gpudiag.probes.errors import GpudiagError


class ApiError(GpudiagError):
    """The cluster's API gave no good answer."""


class NotReached(ApiError):
    """Nothing was sent: no route, a certificate of another authority, no readable token."""


class Unclear(ApiError):
    """It was sent, and nobody knows whether it was carried out: no answer, or a server's error."""


class Refused(ApiError):
    """The API said no, and nothing was done.

    `status` is HTTP's; `reason` and `message` are of the answer's Status object; `retry_after` in
    seconds, None where the answer names none.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        said = f"{status} {reason}".rstrip()
        super().__init__(f"the Kubernetes API answered {said}: {message}".removesuffix(": "))
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
