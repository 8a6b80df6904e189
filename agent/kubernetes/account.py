"""Who this pod is to the cluster: the service account that the kubelet mounts into it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpudiag.agent import files
from gpudiag.agent.kubernetes.errors import NotReached
from gpudiag.probes.errors import UsageError

MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Account:
    """Where the API is, and the folder with `token`, `ca.crt` and `namespace`."""

    host: str
    port: int
    folder: Path

    def token(self) -> str:
        """As it is in the file now: the kubelet renews it; raises `NotReached`."""
        path = self.folder / "token"
        token = self._text("token")
        # A header that http.client does not take is quoted in its error, and so in a log.
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise NotReached(f"{path} holds no service account token: is it the mounted file?")
        return token

    def namespace(self) -> str:
        """The pod's own; raises `NotReached`."""
        return self._text("namespace")

    def trust(self) -> ssl.SSLContext:
        """Trusts the cluster's own authority and no other; raises `NotReached`."""
        path = self.folder / "ca.crt"
        try:
            context = ssl.create_default_context(cafile=str(path))
            # From Python 3.13 on this is set, and refuses the authorities of many older clusters.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
            return context
        except (OSError, ssl.SSLError) as error:
            raise NotReached(f"cannot use the authority in {path}: {error}") from error

    def _text(self, name: str) -> str:
        try:
            return files.text(self.folder / name).strip()
        except UsageError as error:
            raise NotReached(f"no service account: {error}") from error


def account(environ: Mapping[str, str], folder: Path = MOUNT) -> Account | None:
    """The pod's service account; None outside a cluster, and where none is mounted."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not (folder / "token").exists():
        return None
    return Account(host, int(port) if port.isdecimal() else 443, folder)
