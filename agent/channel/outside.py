"""What a rank holds on its GPU outside torch's allocator: the driver's figure less torch's own."""

from __future__ import annotations


class Outside:
    """Joins two figures that are never read at one moment, for one process.

    Torch tells its own once a second, the driver the whole at times of its own. The difference is
    true only where torch's figure has stood still since before the driver read.
    """

    def __init__(self) -> None:
        self._reserved = -1.0
        self._since = 0.0
        self._told = 0.0

    def take(
        self, time: float, reserved: float, used: tuple[float, float] | None
    ) -> tuple[float, float] | None:
        """Time and bytes, once for each reading of the driver; None where nothing can be told.

        `reserved` bytes were told at `time`, `used` is the driver's newest (time, bytes).
        """
        if reserved != self._reserved:
            self._reserved, self._since = reserved, time
        if used is None:
            return None
        at, whole = used
        # Less than torch alone holds: the driver's figure is of before torch took more.
        if not max(self._since, self._told) < at <= time or not whole >= reserved:
            return None
        self._told = at
        return at, whole - reserved
