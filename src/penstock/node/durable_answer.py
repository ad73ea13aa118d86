"""Answers that wait until what a tick wrote is durable."""

from collections.abc import Callable

from penstock.dialects.container import EndOfTickAnswer
from penstock.node.node import Node


class DurableAnswer(EndOfTickAnswer):
    """Listed with the publishers that wait for their confirms, and answered like them: the tick in
    which it is listed writes what it waits for. Without a data directory it is answered at once.
    """

    def __init__(
        self,
        node: Node,
        answer: Callable[[], None],
        when_abandoned: Callable[[], None] | None = None,
    ) -> None:
        self._node = node
        self._answer = answer
        # Called instead when this server steps down in between, and cannot know what became of it.
        self._when_abandoned = when_abandoned
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

    def abandoned(self) -> None:
        if not self._is_answered and self._when_abandoned is not None:
            self._is_answered = True
            self._when_abandoned()

    def became_durable(self) -> None:
        self._node.container.answer_list.append(self)
