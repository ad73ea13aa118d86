"""The disk alarm: publishers wait while the disk is nearly full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.node.node import Node
    from penstock.world.disk import Disk

# Room for what reclaiming copies and for publishes in progress when the alarm is raised: four
# segments.
FREE_BYTES_MIN: Final = 256 * 1024 * 1024
# Publishers go on above this, so that the alarm does not flicker.
FREE_BYTES_RELEASE: Final = 320 * 1024 * 1024
# Sweeps between two checks; a check costs a system call.
SWEEPS: Final = 4


class DiskWatcher:
    """Called before the server listens, so that nobody publishes to a disk that is full already,
    and with every sweep.
    """

    def __init__(self, node: Node, disk: Disk, free_bytes_min: int = FREE_BYTES_MIN) -> None:
        self._node = node
        self._disk = disk
        self._raised = False
        self._sweeps = 0
        self.set_limit(free_bytes_min)

    def set_limit(self, free_bytes_min: int) -> None:
        """In force with the next sweep."""
        self._min = free_bytes_min
        self._release = max(free_bytes_min, free_bytes_min * FREE_BYTES_RELEASE // FREE_BYTES_MIN)
        self._sweeps = 0

    def __call__(self, now: int) -> None:
        is_due = self._sweeps % SWEEPS == 0
        self._sweeps += 1
        if not is_due:
            return
        free = self._disk.free_bytes()
        if not self._raised and free < self._min:
            self._raised = True
            figures: dict[str, object] = {"free": free, "limit": self._min}
            self._node.set_alarm("disk", "low on disk", now, figures)
        elif self._raised and free > self._release:
            self._raised = False
            self._node.set_alarm("disk", "", now, {"free": free})
