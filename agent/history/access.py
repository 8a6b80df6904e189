"""How a Prometheus is reached: its address, and the credentials that go along, never shown."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from gpudiag.agent import files
from gpudiag.probes.errors import UsageError

TOKEN = "GPUDIAG_PROMETHEUS_TOKEN"  # noqa: S105
BASIC = "GPUDIAG_PROMETHEUS_BASIC"
HEADERS = "GPUDIAG_PROMETHEUS_HEADERS"
SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class Access:
    """Where to ask. `url` may have a path, as Mimir's `/prometheus`; `headers` hold the secrets.

    `ca`, `cert` and `key` are files in PEM form; without `ca` the system's authorities count.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """What TLS trusts and shows; raises `UsageError` for files that are no such thing."""
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.cert:
                # A passphrase is refused rather than asked for: nobody may sit at the terminal.
                context.load_cert_chain(self.cert, self.key, password="")
        except (OSError, ValueError) as error:
            raise UsageError(
                f"the TLS files cannot be used ({error}): --ca, --cert and --key name PEM files,"
                " the key without a passphrase"
            ) from error
        return context


def access(
    url: str,
    environment: Mapping[str, str],
    *,
    token_file: Path | None = None,
    basic_file: Path | None = None,
    header_file: Path | None = None,
    ca: Path | None = None,
    cert: Path | None = None,
    key: Path | None = None,
) -> Access:
    """The access that options and environment give; a file wins over its variable.

    The basic file holds `user:password`, the header file one `Name: value` a line. Raises
    `UsageError`, in which no secret stands.
    """
    headers = _headers(_told(header_file, "the headers", environment.get(HEADERS, "")))
    token = _told(token_file, "the token", environment.get(TOKEN, ""))
    basic = _told(basic_file, "the user and password", environment.get(BASIC, ""))
    if token and basic:
        raise UsageError("a token and a password: the server takes one, leave the other out")
    if basic and ":" not in basic:
        raise UsageError(f"{basic_file or BASIC} must hold user:password")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if basic:
        headers["Authorization"] = "Basic " + base64.b64encode(basic.encode()).decode()
    if key and not cert:
        raise UsageError("--key needs --cert, the certificate it belongs to")
    _sendable(headers)
    return Access(address(url), headers, ca, cert, key)


def address(url: str) -> str:
    """The address without a slash at its end; `UsageError` where it is none or holds a password."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        raise UsageError("--prometheus: no address: write http://HOST:PORT") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"--prometheus: a password in the address is seen by every user of this machine: put"
            f" user:password into a file and name it with --basic-auth-file, or set {BASIC}"
        )
    if parts.scheme not in SCHEMES or not parts.hostname or not port_is_one:
        raise UsageError(f"{url[:100]!r} is not an address: write http://HOST:PORT")
    if parts.query or parts.fragment:
        raise UsageError("--prometheus: leave out what follows ? or #: write http://HOST:PORT/PATH")
    path = parts.path.rstrip("/").removesuffix("/api/v1")
    return f"{parts.scheme}://{parts.netloc}{path}"


def _told(path: Path | None, what: str, otherwise: str) -> str:
    return files.text(path, what).strip() if path else otherwise.strip()


def _headers(text: str) -> dict[str, str]:
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise UsageError(f"header line {number} is no `Name: value`")
        found[name.strip()] = value.strip()
    return found


def _sendable(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not (name + value).isascii() or not (name + value).isprintable():
            raise UsageError(f"what {name[:40]!r} is to hold has characters no header can")
