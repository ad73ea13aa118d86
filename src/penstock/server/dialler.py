"""Connections that this server opens to others, with TLS or without.

Without TLS only addresses of this machine are dialled, unless the operator has allowed more: what
servers of a cluster tell one another are the messages of their clients.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

from penstock.server.server import is_loopback
from penstock.server.sockets import (
    WRITE_BYTES_HIGH,
    WRITE_BYTES_LOW,
    SocketTransport,
)
from penstock.server.tls import make_dial_context
from penstock.server.tls_settings import DialTls
from penstock.world.network import Dialler

if TYPE_CHECKING:
    import ssl

    from penstock.server.server import Server
    from penstock.world.network import DialAddress, DialListener

# A machine that is there answers in milliseconds. An attempt that takes longer is given up, because
# the next one may find the machine restarted.
CONNECT_SECONDS: Final = 5.0
# How long the last bytes of a connection that we close may take; then they are dropped.
CLOSE_SECONDS: Final = 5.0


class SocketDialler(Dialler):
    """Held by whoever makes the node of a cluster member."""

    def __init__(
        self, server: Server, tls: DialTls | None = None, *, allows_plain: bool = False
    ) -> None:
        """Raises `BadCertificate`."""
        self._server = server
        self._context = make_dial_context(tls or DialTls())
        self._allows_plain = allows_plain
        self._loop = asyncio.get_running_loop()
        # Kept, or they could be collected.
        self._dialling: set[asyncio.Task[None]] = set()
        self._open: set[DialledProtocol] = set()
        self._is_closed = False
        server.when_stopped.append(self.close)

    def dial(self, address: DialAddress, listener: DialListener) -> None:
        self.dial_with(address, listener, self._context if address.is_tls else None)

    def dial_with(
        self,
        address: DialAddress,
        listener: DialListener,
        context: ssl.SSLContext | None,
        server_name: str | None = None,
    ) -> None:
        """As `dial`, with the TLS settings of this address; the server name is the one that its
        certificate must have, None for the host.
        """
        if self._is_closed:
            return
        task = self._loop.create_task(self._connect(address, listener, context, server_name))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _connect(
        self,
        address: DialAddress,
        listener: DialListener,
        context: ssl.SSLContext | None,
        server_name: str | None,
    ) -> None:
        is_anywhere = address.is_tls or self._allows_plain
        protocol = DialledProtocol(self._server, listener, self._open, is_anywhere)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._loop.create_connection(
                    lambda: protocol,
                    address.host,
                    address.port,
                    ssl=context,
                    server_hostname=None if context is None else server_name,
                )
        except TimeoutError:
            protocol.failed(f"cannot connect to {address}: no answer in {CONNECT_SECONDS} s")
        except OSError as error:
            protocol.failed(f"cannot connect to {address}: {error.strerror or error}")

    def reload(self, tls: DialTls) -> None:
        """New files, for what is dialled from now on. Raises `BadCertificate`; then nothing has
        changed.
        """
        self._context = make_dial_context(tls)

    def close(self) -> None:
        """Give up what is being dialled, and everything that was."""
        self._is_closed = True
        for task in self._dialling:
            task.cancel()
        for protocol in list(self._open):
            protocol.abort()


class DialledTransport(SocketTransport):
    """One dialled connection. The other server closes it in two steps; we need not."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._socket = transport

    def close(self) -> None:
        if self._is_finished or self._socket.is_closing():
            return
        self._is_finished = True
        self._socket.close()
        loop = asyncio.get_running_loop()
        loop.call_later(CLOSE_SECONDS, self._socket.abort)


class DialledProtocol(asyncio.Protocol):
    """What the event loop calls for a dialled connection. Held by the loop while it is open."""

    def __init__(
        self,
        server: Server,
        listener: DialListener,
        all_open: set[DialledProtocol],
        is_anywhere: bool,
    ) -> None:
        """`all_open` lists it while it is connected. `is_anywhere` says that the other end may be on
        another machine.
        """
        self._all_open = all_open
        self._server = server
        self._listener = listener
        self._is_anywhere = is_anywhere
        self._transport: DialledTransport | None = None
        self._is_over = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raw = cast("asyncio.Transport", transport)
        raw.set_write_buffer_limits(WRITE_BYTES_HIGH, WRITE_BYTES_LOW)
        self._transport = DialledTransport(raw)
        self._all_open.add(self)
        peer = transport.get_extra_info("peername") or ("", 0)
        if not self._is_anywhere and not is_loopback(str(peer[0])):
            self.failed(
                f"{peer[0]} is on another machine, and the address of the member has no TLS; write "
                "amqps://HOST:PORT, or set [cluster] plain_text"
            )
            raw.abort()
            return
        try:
            self._listener.connected(self._transport, self._server.now())
        except Exception as error:
            self._defect("opening a link to another server", error)
        self._server.schedule_flush()

    def data_received(self, data: bytes) -> None:
        # It is read as long as there is more, unlike a client's: what one read and one flush cover
        # together costs less, and a server has few of these.
        if self._is_over or self._transport is None:
            return
        try:
            self._listener.received(data, self._server.now())
        except Exception as error:
            self._defect("reading what another server sent", error)
        self._server.schedule_flush()

    def pause_writing(self) -> None:
        self._writable(False)

    def resume_writing(self) -> None:
        self._writable(True)

    def _writable(self, is_writable: bool) -> None:
        if not self._is_over:
            try:
                self._listener.writable(is_writable, self._server.now())
            except Exception as error:
                self._defect("writing to another server", error)
            self._server.schedule_flush()

    def eof_received(self) -> bool:
        return False

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all_open.discard(self)
        if exc is None:
            reason = ""
        elif isinstance(exc, OSError):
            reason = exc.strerror or str(exc)
        else:
            reason = str(exc)
        self.failed(reason)

    def failed(self, reason: str) -> None:
        """The end, of an attempt or of a connection; told once."""
        if self._is_over:
            return
        self._is_over = True
        try:
            self._listener.lost(reason, self._server.now())
        except Exception as error:
            self._server.node.failed("ending a link to another server", error)
        self._server.schedule_flush()

    def _defect(self, doing: str, error: Exception) -> None:
        """An internal error: this connection ends, and no other."""
        self.abort()
        self._server.node.failed(doing, error)
