"""Answers that wait until something has come about. They live on the broker's loop and call back
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.timers import Timer
from penstock.node.durable_answer import DurableAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.node import Node

# How often a condition is checked: a short time compared with a flush of a disk.
POLL_MS: Final = 5


class Awaited(Timer):
    """Checks a condition until it is true, or until a deadline. Held by the timers."""

    def __init__(
        self, node: Node, has_come: Callable[[], bool], answer: Callable[[bool], None], until: int
    ) -> None:
        super().__init__()
        self._node = node
        self._has_come = has_come
        self._answer = answer
        self._until = until

    def fire(self, now: int) -> None:
        if self._has_come():
            DurableAnswer(self._node, lambda: self._answer(True), lambda: self._answer(False))
        elif now >= self._until:
            self._answer(False)
        else:
            self._node.timers.schedule(self, now + POLL_MS)
