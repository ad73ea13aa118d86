"""The memory alarm: publishers are blocked while the process holds too much for its clients.

The main figure is what the broker holds for clients (`Node.held_bytes`): messages, also unfinished
ones, transactions, buffers. Resident memory only corrects it. It is larger, because the allocator
keeps pages that are partly used, and after a queue has drained it may never shrink again; so on its
own it never blocks publishers.

    held    resident                publishers
    > 1     > 1                     wait
    > 1/2   > 5/4                   wait: something is held that is not counted
    less    more than 5/4           go on, and free pages are given back to the system

(as shares of the limit). A message in many queues is counted in each of them and is in memory once;
then resident memory shows that there is no need to block publishers.
"""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.node import Node

# Share of the machine's memory above which publishers are blocked, as RabbitMQ's watermark.
MEMORY_FRACTION: Final = 0.4
# They are unblocked below this share of that, so that the alarm does not flicker.
RELEASE_FRACTION: Final = 0.95
# The second line: resident memory above this share of the limit, which is more than the allocator
# and the interpreter add to what is held, while at least the other share is accounted for.
RESIDENT_FRACTION: Final = 1.25
HELD_FRACTION: Final = 0.5
# Between two sweeps a fast publisher sends hundreds of megabytes. After this share of the limit the
# watcher checks again, so publishers exceed the limit by little more than it.
FLOOD_FRACTION: Final = 1 / 32
# A check costs a step per queue and connection, so not for less than this.
FLOOD_BYTES_MIN: Final = 1024 * 1024
# Returning pages takes some milliseconds of a thread; it helps once after a drain.
TRIM_MS_MIN: Final = 60_000

_STATM: Final = Path("/proc/self/statm")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    return int(_STATM.read_text().split()[1]) * _PAGE_BYTES


def trim_soon() -> None:
    """Give free pages back to the system, in a thread, where the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        threading.Thread(target=trim, args=(0,), name="malloc_trim", daemon=True).start()


class MemoryWatcher:
    """Called with every sweep of the server, and more often while much is received."""

    def __init__(
        self,
        node: Node,
        limit_bytes: int,
        resident: Callable[[], int] = resident_bytes,
        trim: Callable[[], None] = trim_soon,
    ) -> None:
        self._node = node
        self._limit_bytes = limit_bytes
        self._resident = resident
        self._trim = trim
        self._trim_due = 0
        self._raised = False

    def set_limit(self, limit_bytes: int) -> None:
        """In force with the next look."""
        self._limit_bytes = limit_bytes

    def __call__(self, now: int) -> None:
        held = self._node.held_bytes()
        resident = self._resident()
        if not self._raised and self._is_too_much(held, resident, 1.0):
            self._raised = True
            self._node.set_alarm("memory", "low on memory", now, self._figures(held, resident))
        elif self._raised and not self._is_too_much(held, resident, RELEASE_FRACTION):
            self._raised = False
            self._node.set_alarm("memory", "", now, self._figures(held, resident))
        if not self._raised and resident > self._limit_bytes * RESIDENT_FRACTION:
            self._trim_if_due(now)

    def _figures(self, held: int, resident: int) -> dict[str, object]:
        return {"held": held, "resident": resident, "limit": self._limit_bytes}

    def _is_too_much(self, held: int, resident: int, share: float) -> bool:
        limit = self._limit_bytes * share
        if min(held, resident) > limit:
            return True
        return resident > limit * RESIDENT_FRACTION and held > limit * HELD_FRACTION

    def _trim_if_due(self, now: int) -> None:
        if now >= self._trim_due:
            self._trim_due = now + TRIM_MS_MIN
            self._trim()


def flood_bytes(limit_bytes: int) -> int:
    """How much is received between two checks, at most."""
    return max(int(limit_bytes * FLOOD_FRACTION), FLOOD_BYTES_MIN)


def default_limit_bytes() -> int:
    """A share of what this process may have: the machine's memory, or its control group's limit."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group_limit = Path("/sys/fs/cgroup/memory.max")
    try:
        text = group_limit.read_text().strip()
    except OSError:
        text = "max"
    if text.isdigit():
        total = min(total, int(text))
    return int(total * MEMORY_FRACTION)


def can_watch() -> bool:
    return _STATM.exists()
