"""A connection that is restored: it connects to the next address that answers, sets up its channels
again, and repeats publishes without a confirm.

Such a publish may then arrive twice; but a publish that returned has arrived. Calls without an
answer at a loss raise: whether the broker did them is unknown. Deliveries that were not
acknowledged are redelivered by the broker; acknowledging the old ones does nothing.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Self

from penstock.client.asynchronous import AsyncConnection
from penstock.client.asynchronous_channel import AsyncChannel
from penstock.client.errors import (
    NO_REPLY_CODE,
    ChannelClosedError,
    ClientError,
    ConnectFailed,
    ConnectionClosedError,
    LoginRefused,
)
from penstock.client.reconnect import ReconnectPolicy
from penstock.client.redirect import root_of
from penstock.client.uri import Address, addresses_of
from penstock.world.entropy import Entropy


class SystemEntropy(Entropy):
    """The machine's random numbers."""

    def octets(self, count: int) -> bytes:
        return os.urandom(count)


class LastingConnection:
    """Belongs to the event loop it was made in; ends by `close` or a refused login only."""

    def __init__(self, policy: ReconnectPolicy, name: str) -> None:
        self._policy: ReconnectPolicy = policy
        self._name: str = name
        self._epoch: int = 0
        self._connection: AsyncConnection | None = None
        self._channels: list[AsyncChannel] = []
        self._keeper: asyncio.Task[None] | None = None
        self._error: ClientError | None = None
        # How often the connection was lost and made again.
        self.restored_count: int = 0

    @property
    def blocked(self) -> str | None:
        return None if self._connection is None else self._connection.blocked

    async def open(self, *, at_once: bool) -> None:
        """Connect until a broker accepts; with `at_once`, only one round of addresses."""
        attempts: list[tuple[str, str]] = []
        while True:
            attempt = self._policy.next_attempt()
            if attempt.delay_milliseconds:
                if at_once:
                    raise ConnectFailed(attempts)
                await asyncio.sleep(attempt.delay_milliseconds / 1000)
            self._epoch += 1
            connection = AsyncConnection(attempt.address, self._name, self._epoch)
            try:
                await connection.open()
                break
            except LoginRefused:
                raise
            except (ConnectFailed, ConnectionClosedError) as error:
                attempts.append((str(attempt.address), str(error)))
                self._policy.failed()
                if isinstance(error, ConnectionClosedError):
                    self._policy.redirected(root_of(error, attempt.address))
        self._policy.connected()
        self._connection = connection

    def keep(self) -> None:
        """Reconnect from now on."""
        self._keeper = asyncio.ensure_future(self._keep())

    async def channel(self) -> AsyncChannel:
        if self._error is not None:
            raise self._error
        assert self._connection is not None
        channel = AsyncChannel(outlives_connection=True)
        await self._connection.adopt(channel)
        self._channels.append(channel)
        return channel

    async def update_secret(self, secret: str, reason: str = "") -> None:
        """Give the broker a later token, with which lost connections are made again, too."""
        if self._error is not None:
            raise self._error
        self._policy.use_secret(secret)
        assert self._connection is not None
        await self._connection.update_secret(secret, reason)

    async def close(self) -> None:
        """Does nothing on a connection that has ended already."""
        if self._keeper is not None:
            self._keeper.cancel()
            try:
                await asyncio.wait([self._keeper])
            except asyncio.CancelledError:
                if self._connection is not None:
                    self._connection.abort()
                raise
        if self._connection is not None:
            await self._connection.close()
        self._give_up(ConnectionClosedError(NO_REPLY_CODE, "the connection is closed"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _keep(self) -> None:
        try:
            while True:
                assert self._connection is not None
                error = await self._connection.wait_ended()
                if error is not None:
                    self._policy.redirected(root_of(error, self._connection.address))
                # TLS may still be closing with the old peer; its socket must not be forgotten.
                await self._connection.close()
                await self._come_back()
        except ClientError as error:
            self._give_up(error)

    async def _come_back(self) -> None:
        await self.open(at_once=False)
        assert self._connection is not None
        self.restored_count += 1
        self._channels = [channel for channel in self._channels if not channel.closed]
        for channel in self._channels:
            try:
                await self._connection.adopt(channel)
            except ChannelClosedError as error:
                channel.give_up(error)
            except ConnectionClosedError:
                return  # lost again on the way; `_keep` starts over

    def _give_up(self, error: ClientError) -> None:
        self._error = self._error or error
        for channel in self._channels:
            channel.give_up(error)


async def connect_lasting(
    target: str | Address | Sequence[str | Address],
    *,
    name: str = "",
    entropy: Entropy | None = None,
) -> LastingConnection:
    """The first connection must succeed at one of the addresses; later ones are waited for."""
    policy = ReconnectPolicy(addresses_of(target), entropy or SystemEntropy())
    connection = LastingConnection(policy, name)
    await connection.open(at_once=True)
    connection.keep()
    return connection
