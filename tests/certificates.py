"""An authority of a test's own, and a certificate of it for a server on 127.0.0.1."""

from __future__ import annotations

import subprocess
from pathlib import Path

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
_SIGNS = (
    "-addext",
    "basicConstraints=critical,CA:TRUE",
    "-addext",
    "keyUsage=critical,keyCertSign",
)
_SERVES = "subjectAltName=IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"


def authority(folder: Path, name: str = "test") -> Path:
    """The certificate of a new authority; its key lies beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    certificate = folder / "ca.crt"
    files = ("-keyout", str(folder / "ca.key"), "-out", str(certificate))
    _openssl("req", "-x509", *_EC, *_SIGNS, "-subj", f"/CN={name}", *files)
    return certificate


def served_by(certificate: Path) -> tuple[Path, Path]:
    """The server's certificate, signed by that authority, and its key."""
    folder = certificate.parent
    request, key, signed = (folder / f"server.{end}" for end in ("csr", "key", "crt"))
    (folder / "server.ext").write_text(_SERVES)
    _openssl("req", *_EC, "-subj", "/CN=server", "-keyout", str(key), "-out", str(request))
    by = ("-CA", str(certificate), "-CAkey", str(folder / "ca.key"), "-CAcreateserial")
    extra = ("-days", "2", "-extfile", str(folder / "server.ext"))
    _openssl("x509", "-req", "-in", str(request), *by, *extra, "-out", str(signed))
    return signed, key


def _openssl(*words: str) -> None:
    subprocess.run(("openssl", *words), check=True, capture_output=True)
