"""One channel of an asyncio connection. With reconnection it survives several connections: its
set-up is repeated, and publishes without an answer are sent again.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Self

from penstock.client.asynchronous_line import AsyncLine
from penstock.client.asynchronous_publish import Publish
from penstock.client.calls import Answer, Call, select_confirms
from penstock.client.confirms import Settled
from penstock.client.errors import (
    NO_REPLY_CODE,
    ChannelClosedError,
    ClientError,
    ConnectionClosedError,
    ConsumerCancelledError,
    PublishInDoubt,
    PublishRefused,
    PublishReturned,
    ReplyError,
)
from penstock.client.events import (
    ChannelClosed,
    Confirmed,
    ConsumerCancelled,
    Delivered,
    Event,
    Replied,
    Returned,
)
from penstock.wire.amqp091 import methods_generated as m
from penstock.wire.amqp091.content import BasicProperties

# Publishes that may wait for their confirm at a time, as in the blocking skin.
CONFIRM_WINDOW: Final = 1000

# What is repeated on a new connection: it belongs to the channel and ends with it.
CHANNEL_SETUP: Final = (m.BasicQos, m.BasicConsume, m.ConfirmSelect, m.TxSelect)


class AsyncChannel:
    """Made by `AsyncConnection.channel`; use it from the connection's event loop only."""

    def __init__(self, *, outlives_connection: bool = False) -> None:
        # Whether a lost connection is replaced; otherwise its loss ends the channel.
        self._outlives: bool = outlives_connection
        self._line: AsyncLine | None = None
        self.number: int = 0
        self._ready: asyncio.Event = asyncio.Event()
        self._error: ClientError | None = None
        self._replies: dict[int, asyncio.Future[Replied]] = {}
        self._setup: list[m.Method] = []
        # Consuming.
        self._deliveries: deque[Delivered] = deque()
        self._cancelled: deque[str] = deque()
        self._news: asyncio.Event = asyncio.Event()
        # A transaction was lost with its connection, and its caller does not know it yet.
        self._aborted: ReplyError | None = None
        # Publishing: in flight by tag order, or waiting for the next connection.
        self._confirming: bool = False
        self._window: int = CONFIRM_WINDOW
        self._in_flight: dict[Publish, None] = {}
        self._room: asyncio.Event = asyncio.Event()

    # Verbs.

    async def call(self, call: Call[Answer]) -> Answer:
        if isinstance(call.method, m.TxCommit):
            self._check_transaction()
        elif isinstance(call.method, m.TxRollback):
            self._aborted = None
        reply = await self._ask(call.method)
        assert isinstance(reply.method, call.answer)
        if isinstance(call.method, CHANNEL_SETUP):
            self._remember(call.method, reply.method)
        elif isinstance(call.method, m.BasicCancel):
            self._forget_consumer(call.method.consumer_tag)
        return reply.method

    async def get(self, queue: str, *, no_ack: bool = False) -> Delivered | None:
        return (await self._ask(m.BasicGet(queue, no_ack))).message

    async def select_confirms(self, window: int = CONFIRM_WINDOW) -> None:
        assert window > 0
        await self.call(select_confirms())
        self._confirming = True
        self._window = window

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = False,
    ) -> None:
        """With confirms: returns when the broker has the message, raises when it refused it."""
        done = await self.publish_soon(exchange, routing_key, body, properties, mandatory=mandatory)
        await done

    async def publish_soon(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        properties: BasicProperties | None = None,
        *,
        mandatory: bool = False,
    ) -> asyncio.Future[None]:
        """Like `publish`, without waiting for the confirm: the future resolves with it."""
        line = await self._writable_line()
        self._check_transaction()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        publish = Publish(exchange, routing_key, body, properties, mandatory, done)
        if not self._confirming:
            self._send(line, publish)
            done.set_result(None)
            return done
        self._in_flight[publish] = None
        self._send(line, publish)
        return done

    async def messages(self) -> AsyncIterator[Delivered]:
        """Deliveries of all consumers of this channel, until it is closed."""
        while True:
            for message in await self.receive_batch():
                yield message

    async def receive_batch(self) -> list[Delivered]:
        """Everything that has arrived, at least one."""
        while not self._deliveries:
            self._check()
            if self._cancelled:
                tag = self._cancelled.popleft()
                raise ConsumerCancelledError(f"the broker cancelled the consumer {tag!r}")
            self._news.clear()
            if self._line is not None:
                self._line.regulate(reading=True)
            await self._news.wait()
        batch = list(self._deliveries)
        self._deliveries.clear()
        return batch

    def ack(self, message: Delivered, *, multiple: bool = False) -> None:
        self._tell(message, m.BasicAck(message.delivery_tag, multiple))

    def nack(self, message: Delivered, *, multiple: bool = False, requeue: bool = True) -> None:
        self._tell(message, m.BasicNack(message.delivery_tag, multiple, requeue))

    def reject(self, message: Delivered, *, requeue: bool = True) -> None:
        self._tell(message, m.BasicReject(message.delivery_tag, requeue))

    async def close(self) -> None:
        """Does nothing on a channel that is closed already."""
        line = self._line
        if self._error is not None or line is None:
            return
        self._outlives = False
        line.conversation.close_channel(self.number)
        line.flush_soon()
        while self._error is None:
            self._news.clear()
            await self._news.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # For the connection.

    @property
    def held_count(self) -> int:
        return len(self._deliveries)

    @property
    def awaits_answer(self) -> bool:
        return bool(self._replies or self._in_flight)

    @property
    def closed(self) -> bool:
        return self._error is not None

    def attach(self, line: AsyncLine) -> asyncio.Future[Replied]:
        """Open the channel on a connection: the first, or one that replaces a lost one."""
        self._line = line
        self.number, ticket = line.conversation.open_channel()
        line.flush_soon()
        return self._reply_to(ticket)

    async def restore(self) -> None:
        """Once open: repeat the set-up, then send what the last connection left unanswered."""
        for method in self._setup:
            line = self._open_line()
            ticket = line.conversation.call(self.number, method)
            line.flush_soon()
            await self._reply_to(ticket)
        line = self._open_line()
        for publish in self._in_flight:
            self._send(line, publish)
        self._ready.set()

    def _open_line(self) -> AsyncLine:
        self._check()
        if self._line is None:
            raise ConnectionClosedError(NO_REPLY_CODE, "lost again before it was restored")
        return self._line

    def event_came(self, event: Event) -> None:
        if isinstance(event, Delivered):
            self._deliveries.append(event)
            self._news.set()
        elif isinstance(event, Confirmed):
            self._settle(event.settled, PublishRefused(1) if event.nack else None)
        elif isinstance(event, Replied):
            waiting = self._replies.pop(event.ticket, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(event)
        elif isinstance(event, Returned):
            self._returned(event)
        elif isinstance(event, ConsumerCancelled):
            self._forget_consumer(event.consumer_tag)
            self._cancelled.append(event.consumer_tag)
            self._news.set()
        elif isinstance(event, ChannelClosed):
            self._closed(event)

    def give_up(self, error: ClientError) -> None:
        """The channel will not be restored."""
        self._error = self._error or error
        code = error.code if isinstance(error, ReplyError) else NO_REPLY_CODE
        for publish in self._in_flight:
            publish.settle(PublishInDoubt(code, f"unconfirmed: {error}"))
        self._in_flight.clear()
        self._fail_replies(error)
        self._ready.set()
        self._room.set()
        self._news.set()

    def _closed(self, event: ChannelClosed) -> None:
        error = event.error or ChannelClosedError(NO_REPLY_CODE, "the channel is closed")
        self._ready.clear()
        self._line = None
        # Deliveries of a lost connection can no longer be acknowledged: the broker sends them again.
        self._deliveries.clear()
        told: ClientError = event.transaction or error
        if isinstance(error, ChannelClosedError) or not self._outlives:
            if self._replies:
                self._fail_replies(told)
                told = error
            self.give_up(told)
            return
        if not self._replies:
            # Its next verb would belong to another transaction.
            self._aborted = event.transaction
        self._fail_replies(told)

    def _fail_replies(self, error: ClientError) -> None:
        replies, self._replies = self._replies, {}
        for waiting in replies.values():
            if not waiting.done():
                waiting.set_exception(error)

    async def _ask(self, method: m.Method) -> Replied:
        line = await self._ready_line()
        ticket = line.conversation.call(self.number, method)
        line.regulate(reading=True)
        line.flush_soon()
        return await self._reply_to(ticket)

    def _reply_to(self, ticket: int) -> asyncio.Future[Replied]:
        waiting: asyncio.Future[Replied] = asyncio.get_running_loop().create_future()
        self._replies[ticket] = waiting
        return waiting

    async def _ready_line(self) -> AsyncLine:
        while True:
            self._check()
            if self._line is not None and self._ready.is_set():
                return self._line
            await self._ready.wait()

    async def _writable_line(self) -> AsyncLine:
        while True:
            line = await self._ready_line()
            if not line.writable.is_set():
                await line.writable.wait()
            elif len(self._in_flight) >= self._window:
                self._room.clear()
                await self._room.wait()
            else:
                return line

    def _send(self, line: AsyncLine, publish: Publish) -> None:
        line.conversation.publish(
            self.number,
            publish.exchange,
            publish.routing_key,
            publish.body,
            publish.properties,
            publish.mandatory,
            publish,
        )
        line.regulate(reading=True)
        line.flush_soon()

    def _settle(self, settled: list[Settled[object]], error: Exception | None) -> None:
        for part in settled:
            publish = part.note
            assert isinstance(publish, Publish)
            self._in_flight.pop(publish, None)
            publish.settle(error)
        self._room.set()

    def _returned(self, event: Returned) -> None:
        for publish in self._in_flight:
            if publish.is_the_one(event):
                publish.returned = PublishReturned(event.code, event.text)
                return

    def _remember(self, method: m.Method, answer: m.Method) -> None:
        if isinstance(method, m.BasicConsume):
            # Under the same tag again, also when the broker chose it.
            assert isinstance(answer, m.BasicConsumeOk)
            method.consumer_tag = answer.consumer_tag
        if (
            self._setup
            and isinstance(method, m.BasicQos)
            and isinstance(self._setup[-1], m.BasicQos)
        ):
            self._setup.pop()  # no consumer is between them, so only the later limit counts
        self._setup.append(method)

    def _forget_consumer(self, tag: str) -> None:
        self._setup = [
            known
            for known in self._setup
            if not (isinstance(known, m.BasicConsume) and known.consumer_tag == tag)
        ]

    def _tell(self, message: Delivered, method: m.Method) -> None:
        self._check()
        self._check_transaction()
        line = self._line
        # A delivery of a lost connection cannot be settled any more; the broker sends it again.
        if line is not None and message.epoch == line.conversation.epoch:
            line.conversation.tell(self.number, method)
            line.flush_soon()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _check_transaction(self) -> None:
        """Raise once what became of a transaction; the next one begins with the verb after that."""
        if self._aborted is not None:
            aborted, self._aborted = self._aborted, None
            raise aborted
