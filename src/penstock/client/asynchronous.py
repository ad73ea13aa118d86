"""The asyncio skin, with or without reconnection.

    async with await asynchronous.connect("amqp://localhost", reconnect=True) as connection:
        channel = await connection.channel()
        await channel.select_confirms()
        await channel.publish("", "orders", b"one")

With `reconnect`, a lost connection is made again at the next address that answers, channels are
set up again, and publishes without a confirm are sent again: they may then arrive twice, but a
publish that returned has arrived.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Final

from penstock.client.asynchronous_channel import AsyncChannel
from penstock.client.asynchronous_line import AsyncLine, LineOwner, open_line
from penstock.client.errors import (
    ClientError,
    ConnectFailed,
    ConnectionClosedError,
    LoginRefused,
    ReplyError,
)
from penstock.client.events import Blocked, ConnectionClosed, Event, Opened, Unblocked
from penstock.client.reconnect import ReconnectPolicy
from penstock.client.uri import Address, decode_uri
from penstock.world.entropy import Entropy

# Deliveries kept for a program that does not fetch them; beyond it the socket is not read until
# the program fetches some or waits for an answer. A prefetch limit keeps far below it.
DELIVERIES_HELD_MAX: Final = 10_000


class SystemEntropy(Entropy):
    """The machine's own dice."""

    def octets(self, count: int) -> bytes:
        return os.urandom(count)


class AsyncConnection(LineOwner):
    """Belongs to the event loop it was made in."""

    def __init__(self, policy: ReconnectPolicy, name: str, restored: bool) -> None:
        self._policy: ReconnectPolicy = policy
        self._name: str = name
        self._restored: bool = restored
        self._line: AsyncLine | None = None
        self._epoch: int = 0
        self._channels: dict[int, AsyncChannel] = {}
        self._opening: asyncio.Future[None] | None = None
        self._closing: bool = False
        self._ended: asyncio.Event = asyncio.Event()
        self._error: ReplyError | None = None
        self._restoring: asyncio.Task[None] | None = None
        # The broker's reason while it does not read our publishes.
        self.blocked: str | None = None
        self.server_properties: dict[str, object] = {}

    async def open(self) -> None:
        """Try every address once."""
        attempts: list[tuple[str, str]] = []
        while True:
            attempt = self._policy.next_attempt()
            if attempt.delay_milliseconds:
                raise ConnectFailed(attempts)
            try:
                await self._log_in(attempt.address)
                return
            except ConnectFailed as failed:
                attempts.extend(failed.attempts)
                self._policy.failed()

    async def channel(self) -> AsyncChannel:
        if self._line is None or self._line.conversation.ended:
            raise self._error or ConnectionClosedError(0, "the connection is closed")
        channel = AsyncChannel(self._restored)
        await self._attach(channel, self._line)
        await channel.restore()
        return channel

    async def close(self) -> None:
        """Does nothing on a connection that has ended already."""
        self._closing = True
        if self._restoring is not None:
            self._restoring.cancel()
            self._give_up(ConnectionClosedError(0, "the connection is closed"))
        elif self._line is not None and not self._line.conversation.ended:
            self._line.conversation.close()
            self._line.flush_soon()
            await self._ended.wait()

    async def __aenter__(self) -> "AsyncConnection":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def events_came(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Opened):
                self.server_properties = event.server_properties
                self._settle_opening(None)
            elif isinstance(event, Blocked):
                self.blocked = event.reason
            elif isinstance(event, Unblocked):
                self.blocked = None
            elif isinstance(event, ConnectionClosed):
                self._closed(event.error)
            else:
                self._channels[event.channel].event_came(event)
        self._regulate()

    async def _log_in(self, address: Address) -> None:
        self._epoch += 1
        self._channels = {}
        self._opening = asyncio.get_running_loop().create_future()
        self._line = await open_line(address, self, self._name, self._epoch)
        await self._opening
        self._policy.connected()

    async def _attach(self, channel: AsyncChannel, line: AsyncLine) -> None:
        opening = channel.attach(line)
        self._channels[channel.number] = channel
        await opening

    def _settle_opening(self, error: ReplyError | None) -> None:
        opening = self._opening
        if opening is None or opening.done():
            return
        if error is None:
            opening.set_result(None)
        else:
            opening.set_exception(error)

    def _closed(self, error: ReplyError | None) -> None:
        self.blocked = None
        if self._opening is not None and not self._opening.done():
            self._settle_opening(error or ConnectionClosedError(0, "closed during the login"))
        elif self._closing or not self._restored or error is None:
            self._give_up(error or ConnectionClosedError(0, "the connection is closed"))
        elif self._restoring is None:
            self._restoring = asyncio.ensure_future(self._restore(list(self._channels.values())))

    async def _restore(self, channels: list[AsyncChannel]) -> None:
        """Come back and bring every channel back; a loss on the way starts over."""
        try:
            while True:
                attempt = self._policy.next_attempt()
                await asyncio.sleep(attempt.delay_milliseconds / 1000)
                try:
                    await self._log_in(attempt.address)
                    for channel in channels:
                        await self._restore_channel(channel)
                    break
                except LoginRefused:
                    raise
                except (ConnectFailed, ConnectionClosedError):
                    self._policy.failed()
        except ClientError as error:
            self._give_up(error)
        self._restoring = None

    def _give_up(self, error: ClientError) -> None:
        self._error = error if isinstance(error, ReplyError) else ConnectionClosedError(0, str(error))
        for channel in self._channels.values():
            channel.give_up(error)
        self._ended.set()
