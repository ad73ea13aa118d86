"""The asyncio skin: one connection, which is not restored when it is lost. For example:

    async with await asynchronous.connect("amqp://localhost") as connection:
        channel = await connection.channel()
        await channel.select_confirms()
        await channel.publish("", "orders", b"one")

`asynchronous_reconnect` reconnects by itself.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Self

from penstock.client.asynchronous_channel import AsyncChannel
from penstock.client.asynchronous_line import AsyncLine, LineOwner, open_line
from penstock.client.errors import (
    NO_REPLY_CODE,
    ClientError,
    ConnectFailed,
    ConnectionClosedError,
    ReplyError,
)
from penstock.client.events import (
    Blocked,
    ConnectionClosed,
    Event,
    Opened,
    SecretUpdated,
    Unblocked,
)
from penstock.client.redirect import Tour
from penstock.client.uri import Address, addresses_of

# Deliveries kept for a program that does not fetch them; beyond it the socket is not read until
# the program fetches some or waits for an answer. A prefetch limit keeps the number far below it.
DELIVERIES_HELD_MAX: Final = 10_000


class AsyncConnection(LineOwner):
    """Belongs to the event loop it was made in."""

    def __init__(self, address: Address, name: str, epoch: int = 0) -> None:
        self.address: Address = address
        self._name: str = name
        self._epoch: int = epoch
        self._line: AsyncLine | None = None
        self._channels: dict[int, AsyncChannel] = {}
        loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[ReplyError | None] = loop.create_future()
        # The broker's reason while it does not read our publishes.
        self.blocked: str | None = None
        self.server_properties: dict[str, object] = {}
        # Those who wait until the broker has taken their new secret, in order.
        self._updates: deque[asyncio.Future[None]] = deque()

    async def open(self) -> None:
        try:
            self._line = await open_line(self.address, self, self._name, self._epoch)
            await self._opened
        except ClientError:
            await self._wait_lost()
            raise
        except BaseException:
            # Cancelled: the socket must be closed here, because the caller has no reference to it.
            self.abort()
            raise

    async def channel(self) -> AsyncChannel:
        channel = AsyncChannel()
        await self.adopt(channel)
        return channel

    async def adopt(self, channel: AsyncChannel) -> None:
        """Open a channel here that may have been open on another connection before."""
        if self._line is None or self._ended.done():
            raise ConnectionClosedError(NO_REPLY_CODE, "the connection is closed")
        opening = channel.attach(self._line)
        self._channels[channel.number] = channel
        await opening
        await channel.restore()

    async def update_secret(self, secret: str, reason: str = "") -> None:
        """Give the broker a later token before the one of the login expires. Raises when the broker
        refuses it and closes the connection.
        """
        if self._line is None or self._ended.done():
            raise ConnectionClosedError(NO_REPLY_CODE, "the connection is closed")
        self._line.conversation.update_secret(secret, reason)
        self._line.flush_soon()
        update: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._updates.append(update)
        self._hold_back()
        await update

    async def wait_ended(self) -> ReplyError | None:
        """Why it ended; None when we closed it."""
        return await asyncio.shield(self._ended)

    async def close(self) -> None:
        """If the connection has ended already, this only waits for its socket to be closed."""
        if self._line is not None and not self._ended.done():
            self._line.conversation.close()
            self._line.flush_soon()
            try:
                await self.wait_ended()
            except asyncio.CancelledError:
                self.abort()
                raise
        await self._wait_lost()

    def abort(self) -> None:
        """Close the socket without connection.close, in the loop's next turn."""
        self._opened.cancel()
        if self._line is not None:
            self._line.abort()

    async def _wait_lost(self) -> None:
        if self._line is not None:
            await self._line.wait_lost()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def events_came(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Opened):
                self.server_properties = event.server_properties
                self._opened.set_result(None)
            elif isinstance(event, Blocked):
                self.blocked = event.reason
            elif isinstance(event, Unblocked):
                self.blocked = None
            elif isinstance(event, SecretUpdated):
                update = self._updates.popleft()
                if not update.done():
                    update.set_result(None)
            elif isinstance(event, ConnectionClosed):
                self._closed(event.error)
            else:
                self._channels[event.channel].event_came(event)
        self._hold_back()

    def _closed(self, error: ReplyError | None) -> None:
        if not self._opened.done():
            self._opened.set_exception(
                error or ConnectionClosedError(NO_REPLY_CODE, "closed during the login")
            )
        self._ended.set_result(error)
        for update in self._updates:
            if not update.done():
                update.set_exception(
                    error or ConnectionClosedError(NO_REPLY_CODE, "the connection is closed")
                )
        self._updates.clear()

    def _hold_back(self) -> None:
        """Stop reading for a program that fetches nothing and waits for nothing.

        While it waits for an answer reading must go on: deliveries may precede the answer.
        """
        channels = self._channels.values()
        held = sum(channel.held_count for channel in channels)
        if self._line is not None and held > DELIVERIES_HELD_MAX:
            is_waiting = any(channel.awaits_answer for channel in channels)
            self._line.regulate(is_waiting or bool(self._updates))


async def connect(
    target: str | Address | Sequence[str | Address], *, name: str = ""
) -> AsyncConnection:
    """Log in at the first address that can be reached, in a cluster at its root."""
    tour = Tour(addresses_of(target))
    while (address := tour.next_address()) is not None:
        connection = AsyncConnection(address, name)
        try:
            await connection.open()
            return connection
        except ConnectFailed as failed:
            tour.unreachable(failed.attempts)
        except ConnectionClosedError as closed:
            if not tour.was_closed(address, closed):
                raise
    raise tour.failure()
