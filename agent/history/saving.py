"""What was fetched of a node, kept as a recording that `gpudiag replay` takes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpudiag.agent.history.fetching import Chunk
from gpudiag.agent.recording.meta import Meta
from gpudiag.agent.recording.timeline import timeline
from gpudiag.agent.recording.writer import RecordingWriter

MAX_BYTES = 4 * 1024**3
"""Of one node's recording, unpacked: what a replay reads at most."""


def recording_of(folder: Path, node: str) -> Path:
    """The file of one node's recording."""
    return folder / (re.sub(r"[^A-Za-z0-9._-]", "_", node).lstrip(".")[:100] + ".tar.gz")


def saved(chunks: Iterable[Chunk], folder: Path, node: str, start: float) -> Iterator[Chunk]:
    """Hand the chunks on and write them down; whole also where their reader ends early."""
    meta = Meta(node, "gpudiag diagnose", start)
    writer = RecordingWriter(recording_of(folder, node), meta, max_bytes=MAX_BYTES)
    end = start
    try:
        for chunk in chunks:
            cut = timeline(chunk.columns, ())
            writer.add(cut.samples(0, chunk.end)[0])
            end = chunk.end
            yield chunk
    finally:
        writer.close(end)
