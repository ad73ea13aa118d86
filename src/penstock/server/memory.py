"""The memory alarm: publishers wait while the process holds too much."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from penstock.node.node import Node

log = structlog.get_logger()

# Share of the machine's memory above which publishers are blocked, as RabbitMQ's watermark.
MEMORY_FRACTION: Final = 0.4
# They go on below this share of the limit, so that the alarm does not flicker.
RELEASE_FRACTION: Final = 0.95

_STATM: Final = Path("/proc/self/statm")


class MemoryWatcher:
    """Called with every sweep of the server."""

    def __init__(self, node: Node, limit_bytes: int) -> None:
        self._node = node
        self._limit_bytes = limit_bytes
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._raised = False

    def __call__(self, now: int) -> None:
        used = self.used_bytes()
        if not self._raised and used > self._limit_bytes:
            self._raised = True
            log.warning("memory alarm: publishers wait", used=used, limit=self._limit_bytes)
            self._node.set_alarm("memory", "low on memory", now)
        elif self._raised and used < self._limit_bytes * RELEASE_FRACTION:
            self._raised = False
            log.info("memory alarm is over", used=used, limit=self._limit_bytes)
            self._node.set_alarm("memory", "", now)

    def used_bytes(self) -> int:
        return int(_STATM.read_text().split()[1]) * self._page_bytes


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
