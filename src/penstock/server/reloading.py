"""SIGHUP: what can be read again while the broker runs is.

Each part that can do so is added here. One that cannot use what it has read keeps what it had and
says why; the others are read all the same.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.server.systemd import Systemd

log = structlog.get_logger()


class Reloading:
    """Held by `serve`, called on the broker's loop."""

    def __init__(self, systemd: Systemd | None = None) -> None:
        self._parts: list[Callable[[], list[str]]] = []
        self._systemd = systemd

    def add(self, part: Callable[[], list[str]]) -> None:
        """`part` reads its files again and returns what went wrong with them."""
        self._parts.append(part)

    def reload(self) -> None:
        log.info("reloading (SIGHUP)")
        if self._systemd is not None:
            self._systemd.reloading(time.monotonic_ns() // 1000)
        failures: list[str] = []
        for part in self._parts:
            try:
                failures += part()
            except Exception as error:
                log.exception("reloading failed")
                failures.append(repr(error))
        if failures:
            log.error("reloaded in part; what failed is as it was before", failures=len(failures))
        else:
            log.info("reloaded")
        if self._systemd is not None:
            self._systemd.ready()
