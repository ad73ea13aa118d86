"""One channel of a blocking connection: a verb returns when the broker has answered it.

Invariants: with confirms selected, never more than the window's publishes are unanswered; a
publish that was refused, returned or left in doubt is reported by an error, never dropped.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Self

from penstock.client.blocking_pump import Pump, deadline_after, remaining, seconds_until
from penstock.client.calls import Answer, Call, select_confirms
from penstock.client.errors import (
    NO_REPLY_CODE,
    ChannelClosedError,
    ConsumerCancelledError,
    PublishInDoubt,
    PublishRefused,
    PublishReturned,
    ReplyError,
)
from penstock.client.events import Confirmed, Delivered, Replied, Returned
from penstock.client.inbox import Inbox
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties

# Publishes that may wait for their confirm at a time: enough to hide a round trip of a few
# milliseconds at a hundred thousand messages per second.
CONFIRM_WINDOW: Final = 1000

# A batch is handed to the kernel in pieces of this size, so that its memory stays bounded.
BATCH_OCTETS_MAX: Final = 1 << 18


class BlockingChannel:
    """Made by `BlockingConnection.channel`. Not safe across threads."""

    def __init__(self, pump: Pump, seconds: float | None) -> None:
        self._pump: Pump = pump
        # How long a verb waits by default; None is for ever.
        self._seconds: float | None = seconds
        self._inbox: Inbox = Inbox()
        self._window: int = 0
        self._doubt_told: bool = False
        pump.check()
        self.number, ticket = pump.conversation.open_channel()
        pump.inboxes[self.number] = self._inbox
        self._await_reply(ticket)

    @property
    def outstanding(self) -> int:
        """Publishes the broker has not answered yet."""
        return 0 if self._inbox.closed else self._pump.conversation.outstanding(self.number)

    def call(self, call: Call[Answer], timeout: float | None = None) -> Answer:
        self._check()
        reply = self._await_reply(self._pump.conversation.call(self.number, call.method), timeout)
        assert isinstance(reply.method, call.answer)
        return reply.method

    def get(self, queue: str, *, no_ack: bool = False) -> Delivered | None:
        self._check()
        ticket = self._pump.conversation.call(self.number, m.BasicGet(queue, no_ack))
        return self._await_reply(ticket).message

    def messages(self, idle: float | None = None) -> Iterator[Delivered]:
        """Deliveries of all consumers of this channel; ends when none came for `idle` seconds."""
        while batch := self.receive_batch(idle):
            yield from batch

    def receive_batch(self, timeout: float | None = None) -> list[Delivered]:
        """Everything that has come, at least one; empty when nothing came in `timeout` seconds."""
        deadline = deadline_after(timeout)
        inbox = self._inbox
        while not inbox.deliveries:
            self._check()
            if inbox.cancelled:
                tag = inbox.cancelled.popleft()
                raise ConsumerCancelledError(f"the broker cancelled the consumer {tag!r}")
            left = seconds_until(deadline)
            self._pump.turn(max(0.0, left))
            if left <= 0:
                break
        batch = list(inbox.deliveries)
        inbox.deliveries.clear()
        return batch

    def ack(self, message: Delivered, *, multiple: bool = False) -> None:
        self._tell(m.BasicAck(message.delivery_tag, multiple))

    def nack(self, message: Delivered, *, multiple: bool = False, requeue: bool = True) -> None:
        self._tell(m.BasicNack(message.delivery_tag, multiple, requeue))

    def reject(self, message: Delivered, *, requeue: bool = True) -> None:
        self._tell(m.BasicReject(message.delivery_tag, requeue))

    def select_confirms(self, window: int = CONFIRM_WINDOW, *, keep_answers: bool = False) -> None:
        """With `keep_answers` they are left for `take_confirmed`, refusals among them."""
        assert window > 0
        self.call(select_confirms())
        self._window = window
        self._inbox.keeps_confirmed = keep_answers

    def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = False,
    ) -> None:
        """Returns when the kernel has it; with confirms, `wait_for_confirms` waits for the broker's
        answer.
        """
        self._enter_window(1)
        self._pump.conversation.publish(
            self.number, exchange, routing_key, body, properties, mandatory
        )
        self._pump.flush(deadline_after(self._seconds))

    def publish_batch(
        self,
        exchange: str,
        messages: Iterable[tuple[str, bytes]],
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = False,
    ) -> None:
        """Many (routing key, body) in few writes."""
        conversation = self._pump.conversation
        for routing_key, body in messages:
            self._enter_window(1)
            conversation.publish(self.number, exchange, routing_key, body, properties, mandatory)
            if conversation.pending_size >= BATCH_OCTETS_MAX:
                self._pump.flush(deadline_after(self._seconds))
        self._pump.flush(deadline_after(self._seconds))

    def publish_encoded(self, frames: bytes, count: int, note: object = None) -> None:
        """`count` publishes made by `encoding.encode_publish` for this channel's number."""
        self._enter_window(count)
        self._pump.conversation.publish_encoded(self.number, frames, count, note)
        self._pump.flush(deadline_after(self._seconds))

    def wait_for_confirms(self, timeout: float | None = None) -> None:
        """Wait until every publish is answered; raises when one was refused or returned."""
        deadline = deadline_after(self._seconds if timeout is None else timeout)
        while self.outstanding:
            self._turn(remaining(deadline))
        self._check()
        refused, self._inbox.refused_count = self._inbox.refused_count, 0
        if refused:
            raise PublishRefused(refused)
        if self._inbox.returned:
            first = self.take_returned()[0]
            where = f"exchange {first.exchange!r}, routing key {first.routing_key!r}"
            raise PublishReturned(first.code, f"{first.text} ({where})")

    def unanswered_tags(self) -> list[int]:
        """The tags of publishes that the broker neither confirmed nor refused; they count from
        1.
        """
        closed = self._inbox.closed
        doubt = closed.in_doubt if closed else self._pump.conversation.in_doubt(self.number)
        return [tag for part in doubt for tag in part.tags]

    def take_confirmed(self) -> list[Confirmed]:
        """The broker's answers so far, for callers that left notes and keep answers."""
        confirmed = list(self._inbox.confirmed)
        self._inbox.confirmed.clear()
        return confirmed

    def take_returned(self) -> list[Returned]:
        returned = list(self._inbox.returned)
        self._inbox.returned.clear()
        return returned

    def close(self) -> None:
        """Does nothing on a channel that is closed already."""
        if self._inbox.closed or self._pump.error is not None:
            return
        self._pump.conversation.close_channel(self.number)
        deadline = deadline_after(self._seconds)
        while not self._inbox.closed:
            self._pump.turn(remaining(deadline))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, method: m.Method) -> None:
        self._check()
        self._pump.conversation.tell(self.number, method)
        self._pump.flush(deadline_after(self._seconds))

    def _enter_window(self, count: int) -> None:
        self._check()
        if not self._window:
            return
        deadline = deadline_after(self._seconds)
        # A batch larger than the window goes out alone.
        while (waiting := self.outstanding) and waiting + count > self._window:
            self._turn(remaining(deadline))

    def _turn(self, seconds: float) -> None:
        self._check()
        self._pump.turn(seconds)

    def _await_reply(self, ticket: int, timeout: float | None = None) -> Replied:
        deadline = deadline_after(self._seconds if timeout is None else timeout)
        while ticket not in self._inbox.replies:
            self._turn(remaining(deadline))
        return self._inbox.replies.pop(ticket)

    def _check(self) -> None:
        """Raise the error that ended the channel; the first time with the number of publishes in
        doubt, or with what became of its transaction.
        """
        closed = self._inbox.closed
        if closed is None:
            return
        error: ReplyError = closed.error or ChannelClosedError(
            NO_REPLY_CODE, f"channel {self.number} is closed"
        )
        if closed.in_doubt and not self._doubt_told:
            self._doubt_told = True
            count = len(self.unanswered_tags())
            raise PublishInDoubt(error.code, f"{count} publish(es) unconfirmed: {error}")
        if closed.transaction is not None and not self._doubt_told:
            self._doubt_told = True
            raise closed.transaction
        raise error
