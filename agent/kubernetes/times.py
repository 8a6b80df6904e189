"""Times as the cluster's API writes them, from and to epoch seconds."""

from __future__ import annotations

from datetime import UTC, datetime


def micro(at: float) -> str:
    """A MicroTime, as leases and events have."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def whole(at: float) -> str:
    """A Time, in seconds, as all else has."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch(text: str) -> float:
    """Raises `ValueError` where it is not a time."""
    return datetime.fromisoformat(text).timestamp()
