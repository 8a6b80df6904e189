"""What logs say of checkpoints: uploads that fail, digests that differ, files that do not load."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from gpudiag.agent.window.events import MAX_EVENTS

Kind = Literal["upload", "checksum", "space", ""]

_ABOUT = r"(?:checkpoint|ckpt|shard|safetensors|optim|\.pt\b|\.distcp|model_states|weights)"
_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "checksum",
        re.compile(
            r"(?:checksum|digest|md5|sha-?256|crc32c?|etag)\b.{0,60}?"
            r"(?:mismatch|differ|does not match|do not match|failed|invalid|expected)"
            r"|(?:mismatch|bad|invalid|wrong).{0,20}(?:checksum|digest|md5|sha-?256|crc)"
            r"|PytorchStreamReader failed (?:reading|locating)"
            r"|invalid header or archive is corrupted"
            r"|unexpected EOF, expected \d+ more bytes|HeaderTooLarge|MetadataIncompleteBuffer"
            r"|incomplete metadata, file not fully covered",
            re.IGNORECASE,
        ),
    ),
    ("space", re.compile(r"No space left on device|\bENOSPC\b|Disk quota exceeded")),
    (
        "upload",
        re.compile(
            r"(?:upload|put_object|PutObject|multipart|fput|cp to s3|rclone|gsutil|azcopy)"
            r".{0,160}?(?:fail|error|denied|timed? ?out|refused|slow ?down|reset|forbidden|50\d\b)"
            r"|(?:fail|error|could not|unable).{0,40}?upload",
            re.IGNORECASE,
        ),
    ),
)
_MAYBE = re.compile(
    r"hecksum|igest|md5|sha|crc|CRC|[eE][tT]ag|StreamReader|archive|EOF|HeaderToo|etadata|No space"
    r"|ENOSPC|quota|pload|utObject|put_object|multipart|fput|rclone|gsutil|azcopy|cp to s3"
)
_CHECKPOINT = re.compile(_ABOUT, re.IGNORECASE)


@lru_cache(maxsize=2 * MAX_EVENTS)
def storage_kind(line: str) -> Kind:
    """Which trouble of a checkpoint the line tells of, "" for none."""
    if not _MAYBE.search(line):
        return ""
    kind = next((kind for kind, pattern in _KINDS if pattern.search(line)), "")
    # A digest or an upload may be of anything; it counts where the line speaks of checkpoints.
    if kind in ("checksum", "upload") and not _CHECKPOINT.search(line):
        return "checksum" if "PytorchStreamReader" in line else ""
    return kind  # type: ignore[return-value]
