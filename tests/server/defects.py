"""Defects that are planted into a running broker: exceptions where nobody expects one."""

from penstock.broker.entry import QueueEntry
from penstock.broker.message import Message
from penstock.broker.observers import QueueObserver
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.queues.message_queue import MessageQueue
from penstock.broker.timers import Timer
from penstock.dialects.container import EndOfTickAnswer
from penstock.node.node import Node
from penstock.wire.outgoing import Outgoing


class PlantedDefect(Exception):
    """Raised by all of them."""


class BrokenAnswer(EndOfTickAnswer):
    """Keeps so many ticks in a row from being completed. Listed where publishers are."""

    def __init__(self, node: Node, tick_count: int, outgoing: Outgoing | None = None) -> None:
        self._answer_list = node.container.answer_list
        self._left = tick_count
        self._outgoing = outgoing
        self._answer_list.append(self)

    def outgoing_of(self) -> Outgoing | None:
        return self._outgoing

    def flush(self) -> None:
        self._left -= 1
        if self._left:
            self._answer_list.append(self)
        raise PlantedDefect("a tick")

    def is_waiting(self) -> bool:
        return False


class BrokenTimer(Timer):
    def __init__(self, connection: int = 0) -> None:
        super().__init__()
        self.connection = connection
        self.fired_count = 0

    def fire(self, now: int) -> None:
        self.fired_count += 1
        raise PlantedDefect("a timer")


class BrokenPublishing(PublishInterceptor):
    """Fails for every message that is published while it is there."""

    def admits(self, message: Message, queues: list[MessageQueue], now: int) -> bool:
        raise PlantedDefect("a publish")


class BrokenObserver(QueueObserver):
    """Fails when a message goes back into its queue, or is given to a consumer."""

    def delivered(self, entry: QueueEntry) -> None:
        raise PlantedDefect("a delivery")

    def requeued(self, entry: QueueEntry) -> None:
        raise PlantedDefect("a requeue")
