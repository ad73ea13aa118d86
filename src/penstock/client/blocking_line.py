"""A socket as the blocking skin uses it: it never blocks in a write while the broker waits to be
read.

A peer that stops reading until we read would otherwise wait for us as we wait for it.
"""

import select
import socket
import ssl
from typing import Final

from penstock.client.errors import ConnectFailed
from penstock.client.tls import tls_context
from penstock.client.uri import Address
from penstock.world.network import Transport

# One read of this size empties a busy socket's buffer; more gains nothing.
READ_SIZE: Final = 1 << 18

# What the sends of one turn hand to the kernel at a time.
SEND_SIZE: Final = 1 << 20


class Line(Transport):
    """Held by a pump; the socket is non-blocking, all waiting happens in `wait`."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket: socket.socket = sock
        self._unsent: memoryview = memoryview(b"")
        self._poll = select.poll()
        self.closed: bool = False

    def write(self, data: bytes) -> None:
        self._unsent = memoryview(bytes(self._unsent) + data if self._unsent else data)

    def close(self) -> None:
        """Called by `outgoing` once its last bytes are written; they may still be unsent."""
        self.send()
        self.abort()

    def abort(self) -> None:
        if not self.closed:
            self.closed = True
            self._socket.close()

    def pause_reading(self) -> None:
        """Nothing to do: a blocking skin reads only when it is asked to."""

    def resume_reading(self) -> None:
        """As `pause_reading`."""

    @property
    def unsent(self) -> bool:
        return len(self._unsent) > 0

    def send(self) -> bool:
        """Pass to the kernel what it accepts now; returns whether nothing is left. False also on a
        lost connection.
        """
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent[:SEND_SIZE])
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return False
            except OSError:
                self.abort()
                return False
            self._unsent = self._unsent[sent:]
        return True

    def receive(self) -> bytes | None:
        """The received bytes; None when there are none yet, b"" at the end of the connection."""
        if self.closed:
            return b""
        try:
            return self._socket.recv(READ_SIZE)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return None
        except OSError:
            return b""

    def wait(self, seconds: float) -> None:
        """Wait until there is something to read, or room to write when something is unsent."""
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        self._poll.register(self._socket, events)
        self._poll.poll(max(0.0, seconds) * 1000)


def open_line(addresses: list[Address]) -> tuple[Line, Address]:
    """Connect to the first address that can be reached."""
    attempts: list[tuple[str, str]] = []
    for address in addresses:
        try:
            return Line(_connected(address)), address
        except OSError as error:
            attempts.append((str(address), error.strerror or str(error)))
    raise ConnectFailed(attempts)


def _connected(address: Address) -> socket.socket:
    seconds = address.connect_timeout_milliseconds / 1000 or None
    sock = socket.create_connection((address.host, address.port), timeout=seconds)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.tls is not None:
            name = address.tls.server_name or address.host
            return tls_context(address.tls).wrap_socket(sock, server_hostname=name)
    except BaseException:
        sock.close()
        raise
    return sock
