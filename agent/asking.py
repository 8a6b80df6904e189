"""One question or change over HTTP to a running agent, for the commands that need one."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec

from gpudiag.agent import files
from gpudiag.probes.errors import GpudiagError, UsageError

DEFAULT_URL = "http://127.0.0.1:9440"
_SECONDS = 10.0


def ask(url: str, path: str) -> bytes:
    """What the agent at `url` answers at `path`; raises `GpudiagError` where none does."""
    if "://" not in url:
        url = f"http://{url}"
    if not url.startswith(("http://", "https://")):
        raise GpudiagError(f"{url!r} is not an address: write http://HOST:PORT")
    try:
        with urlopen(url.rstrip("/") + path, timeout=_SECONDS) as answer:  # noqa: S310
            return bytes(answer.read())
    # ValueError: an address that cannot be taken apart.
    except (OSError, HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise GpudiagError(
            f"no agent answers at {url} ({reason}): start one with `gpudiag agent`,"
            " or name it with --agent"
        ) from error


def bearer(token_file: Path | None) -> dict[str, str]:
    """The header that shows the token, of a file or of GPUDIAG_TOKEN; `UsageError` without one."""
    token = os.environ.get("GPUDIAG_TOKEN", "")
    if token_file is not None:
        token = files.text(token_file, "the token").strip()
    if not token:
        raise UsageError("this needs the agent's token: --token-file or GPUDIAG_TOKEN")
    return {"Authorization": f"Bearer {token}"}


def signed(token_file: Path | None) -> dict[str, str]:
    """The headers of a change that a person makes: the token, and the name for the audit."""
    return {**bearer(token_file), "X-Actor": getpass.getuser()}


def change(url: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> dict[str, Any]:
    """POST to the agent, and what it says to that; `GpudiagError` where it refuses."""
    target = (url if "://" in url else f"http://{url}").rstrip("/") + path
    if not target.startswith(("http://", "https://")):
        raise GpudiagError(f"{url!r} is not an address: write http://HOST:PORT")
    request = Request(target, data=body, headers=dict(headers), method="POST")  # noqa: S310
    try:
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            return msgspec.json.decode(answer.read(), type=dict[str, Any])
    except HTTPError as error:
        with error:
            said = _error_in(error.read(4096))
        if error.code == HTTPStatus.NOT_FOUND and not said:
            return {"done": False}
        raise GpudiagError(f"the agent refused: {said or error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise GpudiagError(f"no agent answers at {url}: name it with --agent") from error


def _error_in(text: bytes) -> str:
    try:
        return str(msgspec.json.decode(text, type=dict[str, Any]).get("error", ""))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def told(url: str, what: str, query: str = "") -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What `/api/v1/WHAT` gives, whole and its list; `GpudiagError` where no agent answers."""
    try:
        whole = msgspec.json.decode(ask(url, f"/api/v1/{what}{query}"), type=dict[str, Any])
        return whole, msgspec.convert(whole[what], list[dict[str, Any]])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError) as error:
        raise GpudiagError(
            f"what answers at {url} is no gpudiag agent: name its address with --agent"
        ) from error


def listed(url: str, what: str) -> list[dict[str, Any]]:
    """The list alone."""
    return told(url, what)[1]
