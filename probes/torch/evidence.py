"""What a blocked process can still say: where each thread stands."""

from __future__ import annotations

import sys
import threading
import traceback

FRAMES = 40
CHARACTERS = 48_000


def stacks() -> str:
    """The Python stack of every thread but this one, innermost frame last, bounded in size."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own = threading.get_ident()
    parts = []
    for ident, frame in sys._current_frames().items():
        if ident != own:
            summary = traceback.StackSummary.extract(
                traceback.walk_stack(frame), limit=FRAMES, lookup_lines=False
            )
            lines = [f"  {f.filename}:{f.lineno} {f.name}" for f in reversed(summary)]
            parts.append("\n".join([f"thread {names.get(ident, ident)}", *lines]))
    return "\n".join(parts)[:CHARACTERS]
