"""Drives one conversation over one asyncio transport.

All output of one turn of the event loop is sent in one write.
"""

import asyncio
import secrets
import time
from abc import ABC, abstractmethod
from typing import Final, cast

from penstock.client.conversation import Conversation
from penstock.client.errors import ConnectFailed
from penstock.client.events import Event
from penstock.client.login import NONCE_OCTETS
from penstock.client.tls import tls_context
from penstock.client.uri import Address
from penstock.wire.outgoing import Outgoing
from penstock.world.network import Transport

# Heartbeats are due every few seconds at most, so a check each second is enough.
TICK_SECONDS: Final = 1.0
# How long a peer has to answer the close of TLS; everything of AMQP has been sent by then.
LEAVE_SECONDS: Final = 1.0


class LineOwner(ABC):
    """Receives the events of the conversation; implemented by the connection."""

    @abstractmethod
    def events_came(self, events: list[Event]) -> None: ...


class AsyncioTransport(Transport):
    """An asyncio transport with the interface that the wire uses."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport: asyncio.Transport = transport

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()


class AsyncLine(asyncio.Protocol):
    """Held by an `AsyncConnection`, one for each time it connects."""

    conversation: Conversation
    transport: Transport

    def __init__(self, address: Address, owner: LineOwner, name: str, epoch: int) -> None:
        self._address: Address = address
        self._owner: LineOwner = owner
        self._name: str = name
        self._epoch: int = epoch
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._flush_list: list[Outgoing] = []
        self._flush_scheduled: bool = False
        self._ticker: asyncio.TimerHandle | None = None
        self._reading: bool = True
        # Set while the kernel accepts more output; publishers wait for it.
        self.writable: asyncio.Event = asyncio.Event()
        self.writable.set()
        self._lost: asyncio.Event = asyncio.Event()
        # The transport of the socket; TLS, if any, is a layer above it.
        self.socket: asyncio.Transport | None = None
        self._started: bool = False
        # What a TLS peer sent together with the end of the handshake, before `start`.
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: uvloop's transports are such without being derived from it.
        self.socket = cast("asyncio.Transport", transport)
        if self._address.tls is None:
            self.start(self.socket)
        else:
            self.socket.pause_reading()  # until TLS reads it

    def start(self, transport: asyncio.Transport) -> None:
        self.transport = AsyncioTransport(transport)
        outgoing = Outgoing(self._flush_list, self.transport)
        self.conversation = Conversation(
            self._address,
            outgoing,
            name=self._name,
            epoch=self._epoch,
            nonce=secrets.token_hex(NONCE_OCTETS),
        )
        self._started = True
        self.conversation.start()
        self._flush()
        self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)
        for data in self._early:
            self.data_received(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        if self._started:
            self._report(self.conversation.receive(data, _now()))
        else:
            self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ticker is not None:
            self._ticker.cancel()
        self.writable.set()
        self._lost.set()
        if self._started:
            self._report(self.conversation.lost())

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def is_lost(self) -> bool:
        return self._lost.is_set()

    async def wait_lost(self) -> None:
        """Wait until the socket is closed. TLS sends its close to the peer first, which may not
        answer.
        """
        if not await self._is_lost_soon():
            self.abort()
            # That closes the socket in the loop's next turn, which never comes if the caller ends
            # the loop now.
            await self._is_lost_soon()

    async def _is_lost_soon(self) -> bool:
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._lost.wait()
        except TimeoutError:
            return False
        except asyncio.CancelledError:
            self.abort()
            raise
        return True

    def abort(self) -> None:
        """Close the socket without a TLS close, in the loop's next turn."""
        # Not by `transport`: asyncio's TLS forgets its socket when it is closed a second time.
        if self.socket is not None:
            self.socket.abort()

    def flush_soon(self) -> None:
        """Write at the end of this turn of the loop, together with its other output."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._loop.call_soon(self._flush)

    def regulate(self, reading: bool) -> None:
        if reading != self._reading and not self.conversation.ended:
            self._reading = reading
            if reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def _flush(self) -> None:
        self._flush_scheduled = False
        while self._flush_list:
            self._flush_list.pop().flush()

    def _tick(self) -> None:
        if not self.conversation.ended:
            self._ticker = self._loop.call_later(TICK_SECONDS, self._tick)
            self._report(self.conversation.tick(_now()))

    def _report(self, events: list[Event]) -> None:
        if events:
            self._owner.events_came(events)
        self._flush()


async def open_line(address: Address, owner: LineOwner, name: str, epoch: int) -> AsyncLine:
    context = None if address.tls is None else tls_context(address.tls)
    seconds = address.connect_timeout_milliseconds / 1000 or None
    line = AsyncLine(address, owner, name, epoch)
    try:
        async with asyncio.timeout(seconds):
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: line, address.host, address.port)
            if context is not None and address.tls is not None:
                assert line.socket is not None
                host = address.tls.server_name or address.host
                # Not in one step: a `create_connection(ssl=...)` that is cancelled in its first turn
                # leaves the socket open without an owner.
                secured = await loop.start_tls(line.socket, line, context, server_hostname=host)
                if secured is None or line.is_lost():
                    raise ConnectionResetError("the connection was lost during the TLS handshake")
                line.start(secured)
    except OSError as error:  # a time-out is one, too
        line.abort()
        reason = error.strerror or str(error) or "timed out"
        raise ConnectFailed([(str(address), reason)]) from error
    except BaseException:
        line.abort()
        raise
    return line


def _now() -> int:
    return int(time.monotonic() * 1000)
