"""Answers that wait: until what a tick wrote is safe on disk, or until something has come about.

All of it lives on the broker's loop and calls back there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.broker.timers import Timer
from penstock.dialects.container import EndOfTickAnswer

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.node import Node

# How often is looked whether something has come about: short beside a flush of a disk.
POLL_MS: Final = 5


class DurableAnswer(EndOfTickAnswer):
    """Listed with the publishers who wait for their confirms, and answers as they do: the tick that
    it is listed in writes down what it waits for. Without a data directory that is at once.
    """

    def __init__(self, node: Node, answer: Callable[[], None]) -> None:
        self._node = node
        self._answer = answer
        self._position = -1
        self._is_answered = False
        node.container.answer_list.append(self)

    def flush(self) -> None:
        durability = self._node.durability
        if self._position < 0:
            self._position = durability.written
        if not self._is_answered and durability.durable >= self._position:
            self._is_answered = True
            self._answer()

    def is_waiting(self) -> bool:
        return not self._is_answered

    def became_durable(self) -> None:
        self._node.container.answer_list.append(self)


class Awaited(Timer):
    """Looks until something has come about, or until it is too late. Held by the timers."""

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
            DurableAnswer(self._node, lambda: self._answer(True))
        elif now >= self._until:
            self._answer(False)
        else:
            self._node.timers.schedule(self, now + POLL_MS)
