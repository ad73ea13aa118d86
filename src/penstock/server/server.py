"""A node on the real world: its sockets, its clock, its timers.

One tick: everything that was readable is given to the node, then one `flush` dispatches the
touched queues, confirms publishes and writes each connection's output once.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING, Final

import structlog

from penstock.broker.timers import NEVER
from penstock.node.node import Receiver
from penstock.server.sockets import SocketOwner, SocketProtocol, SocketTransport
from penstock.world.disk import DiskError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.dialects.connection import Connection
    from penstock.node.node import Node
    from penstock.world.clock import Clock

log = structlog.get_logger()

# How often heartbeats and handshake time-outs are looked at. A heartbeat of one second, the
# shortest there is, is sent every half second and missed after two.
SWEEP_SECONDS: Final = 0.25
# The kernel's queue of connections not yet accepted; a reconnecting fleet comes all at once.
BACKLOG: Final = 4096
# How long clients have to answer connection.close when the server stops.
STOP_SECONDS: Final = 5.0


class Server(SocketOwner):
    """Held by `launch` and by the in-process broker; lives on one event loop."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self.node = node
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._listeners: list[asyncio.Server] = []
        self._flush_scheduled = False
        # When the tick began: a message that may only be delivered at once (time to live 0) is
        # still on time at its end.
        self._tick_began = 0
        # Sockets that have said enough for this tick.
        self._resting: list[SocketTransport] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = NEVER
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        # Called with every sweep; memory and disk watchers attach here.
        self.watchers: list[Callable[[int], None]] = []
        # And, beside the sweeps, `when_flooded` whenever so many bytes were received.
        self.flood_bytes: int = 0
        self.when_flooded: Callable[[int], None] | None = None
        self._received_bytes = 0
        node.receiver = ServerReceiver(self)
        # Called once when the disk cannot be trusted any more.
        self.when_storage_fails: Callable[[], None] | None = None

    def now(self) -> int:
        return self._clock.now()

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen and return the address that was really taken."""
        listener = await self._loop.create_server(
            lambda: SocketProtocol(self),
            host,
            port,
            backlog=BACKLOG,
            reuse_address=True,
        )
        self._listeners.append(listener)
        name = listener.sockets[0].getsockname()
        return str(name[0]), int(name[1])

    # What sockets say.

    def accepted(self, transport: SocketTransport, peer: tuple[str, int]) -> Connection | None:
        host = peer[0]
        connection = self.node.connected(transport, host, is_loopback(host), self._clock.now())
        self.schedule_flush()
        return connection

    def received(self, connection: Connection, data: bytes) -> None:
        now = self._clock.now()
        try:
            connection.received(data, now)
        except DiskError as error:
            # A message that was paged out cannot be read back: nobody may go on as if it could.
            self.node.storage_failed(str(error))
        except Exception:
            # A defect of ours must not take the other connections down with this one.
            log.exception("connection failed", connection=connection.number)
            connection.failed(now)
        self._received_bytes += len(data)
        if self._received_bytes >= self.flood_bytes and self.when_flooded is not None:
            self._received_bytes = 0
            self.when_flooded(now)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._tick_began = now
            self._loop.call_soon(self._flush)

    def let_rest(self, transport: SocketTransport) -> None:
        self._resting.append(transport)

    def lost(self, connection: Connection) -> None:
        try:
            self.node.lost(connection, self._clock.now())
        except DiskError as error:
            self.node.storage_failed(str(error))
        self.schedule_flush()

    # Ticks.

    def schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._tick_began = self._clock.now()
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        node = self.node
        node.flush(self._tick_began)
        if self._resting:
            for transport in self._resting:
                transport.go_on()
            self._resting.clear()
        if node.storage_failure:
            if self.when_storage_fails is not None:
                self.when_storage_fails()
            return
        if node.has_work():
            self.schedule_flush()
        due = node.timers.next_due()
        if due != self._timer_due:
            self._arm(due)

    def _arm(self, due: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_due = due
        if due != NEVER:
            delay = max(0, due - self._clock.now()) / 1000
            self._timer = self._loop.call_later(delay, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_due = NEVER
        try:
            self.node.timers.fire_due(self._clock.now())
        except DiskError as error:
            self.node.storage_failed(str(error))
        self.schedule_flush()

    def _sweep(self) -> None:
        now = self._clock.now()
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        try:
            for watcher in self.watchers:
                watcher(now)
            self.node.sweep(now, self._clock.wall())
        except DiskError as error:
            # Its folder is gone, or cannot be asked.
            self.node.storage_failed(str(error))
        self.schedule_flush()

    async def stop(self, answer_seconds: float = STOP_SECONDS) -> None:
        """Accept nobody any more, tell clients, wait a moment for their answers, leave."""
        for listener in self._listeners:
            listener.close()
        self.node.stop(self._clock.now())
        self.schedule_flush()
        began = self._loop.time()
        waited = 0.0
        while (self.node.connections and waited < answer_seconds) or (
            not self.node.is_all_safe() and waited < STOP_SECONDS
        ):
            await asyncio.sleep(0.005)
            waited = self._loop.time() - began
        for connection in list(self.node.connections.values()):
            connection.outgoing.transport.abort()
        self._sweeper.cancel()
        if self._timer is not None:
            self._timer.cancel()

    async def note_clean_stop(self) -> None:
        """Write down where the store ends; comes after `stop`, when nothing more is written."""
        stored = self.node.stored
        if stored is None or self.node.storage_failure:
            return
        began = self._loop.time()
        try:
            stored.note_clean_stop()
            while not stored.is_stop_noted() and self._loop.time() - began < STOP_SECONDS:
                await asyncio.sleep(0.005)
        except DiskError as error:
            # Nothing is lost by it: the next start takes it for a crash.
            log.warning(
                "the clean stop could not be noted in the data directory", reason=str(error)
            )


class ServerReceiver(Receiver):
    """Lets connections go on with what they kept, with what the server does about failures."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def received(self, connection: Connection, data: bytes, now: int) -> None:
        self._server.received(connection, data)


def is_loopback(host: str) -> bool:
    """Whether a peer is on this machine. A Unix socket has no address and is."""
    if not host:
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
