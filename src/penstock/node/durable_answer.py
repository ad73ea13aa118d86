"""Answers that wait until what a tick wrote is durable."""

from collections.abc import Callable

from penstock.dialects.container import EndOfTickAnswer
from penstock.node.node import Node


class DurableAnswer(EndOfTickAnswer):
    """Listed with the publishers that wait for their confirms, and answered like them: the tick in
    which it is listed writes what it waits for. Without a data directory it is answered at once.
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
