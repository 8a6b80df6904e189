"""An answer in JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response


def answered(body: Any, status: int = 200) -> Response:
    """`body` as JSON."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")
