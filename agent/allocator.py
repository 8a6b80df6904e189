"""Has the C library give memory back to the system, and share one heap among the threads."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 128 * 1024


def be_thrifty() -> None:
    """Call it before any thread is started; a C library other than glibc is left as it is.

    A heap for each thread, and a threshold that glibc raises with every large array that is
    freed, cost the agent some 5 MiB that nothing uses.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    mallopt(_ARENA_MAX, 1)
    mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_TRIM_THRESHOLD, _LARGE_BYTES)
