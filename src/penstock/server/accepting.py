"""Accepting connections, also when there are no descriptors left for them.

The event loop's own way is not used: it accepts every waiting connection before one can be refused,
and closes the listening socket for good when the system runs out of descriptors. Here a few are
accepted per turn of the loop; one for which there is no room is closed at once, so that its client
does not wait for a broker that does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING, Final

import structlog

from penstock.server.descriptors import OUT_OF_DESCRIPTORS, SpareDescriptor, sockets_below

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger()

# Others have their turn after this many; the rest waits in the kernel.
ACCEPTED_PER_TURN: Final = 64
# When not even the spare descriptor is available, the next try is after this time.
PAUSE_SECONDS: Final = 0.5
# Refused connections are logged once, then at most this often, with their number.
LOG_SECONDS: Final = 60.0
# The first input of a client; read before its socket is closed, because unread bytes would turn the
# close into a reset.
FIRST_OCTETS: Final = 4096


class Refusals:
    """Logs that connections are refused. Held by the server."""

    def __init__(self) -> None:
        self._untold = 0
        self._told_at = -LOG_SECONDS

    def add(self, reason: str, seconds: float) -> None:
        self._untold += 1
        if seconds - self._told_at >= LOG_SECONDS:
            log.warning("refused connections", count=self._untold, reason=reason)
            self._untold = 0
            self._told_at = seconds


class Acceptor:
    """One listening socket. Held by the server, which is asked for a protocol per connection."""

    def __init__(
        self,
        listening: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        refusals: Refusals,
        make_room: Callable[[], object],
    ) -> None:
        """`make_room` is called when no descriptor is free: it may close a lingering socket."""
        self._listening = listening
        # 0 for a socket that has none.
        name = listening.getsockname()
        self.port: int = name[1] if isinstance(name, tuple) else 0
        self._make_protocol = make_protocol
        self._refusals = refusals
        self._make_room = make_room
        self._loop = asyncio.get_running_loop()
        self._spare = SpareDescriptor()
        # Connections whose transports are being made; kept, or they could be collected.
        self._opening: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._resume()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._listening)
        self._listening.close()
        self._spare.close()

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listening, self._accept_some)

    def _accept_some(self) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS and self._refuse_with_spare():
                    continue
                # Or a network error, which the system reports here.
                self._pause(error)
                return
            if accepted.fileno() >= sockets_below():
                self._refuse(accepted)
            else:
                self._open(accepted)

    def _open(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        task = self._loop.create_task(self._connect(accepted))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, accepted)
        except OSError as error:
            # The peer was gone before the connection was set up.
            log.debug("connection closed while it was being accepted", reason=str(error))
            accepted.close()

    def _refuse(self, accepted: socket.socket) -> None:
        with contextlib.suppress(OSError):
            accepted.setblocking(False)
            accepted.recv(FIRST_OCTETS)
        accepted.close()
        self._make_room()
        reason = (
            f"all {sockets_below()} file descriptors for connections are in use; "
            "raise the limit of open files (ulimit -n, LimitNOFILE)"
        )
        self._refusals.add(reason, self._loop.time())

    def _refuse_with_spare(self) -> bool:
        """Accept one connection, in order to close it, with the spare descriptor."""
        if not self._spare.release():
            self._spare.take_back()
            return False
        try:
            accepted, _ = self._listening.accept()
        except OSError:
            return False
        else:
            self._refuse(accepted)
            return True
        finally:
            self._spare.take_back()

    def _pause(self, error: OSError) -> None:
        self._make_room()
        self._refusals.add(
            f"cannot accept connections: {error.strerror or error}", self._loop.time()
        )
        self._loop.remove_reader(self._listening)
        self._loop.call_later(PAUSE_SECONDS, self._resume)
