"""A node on the real world: its sockets, its clock, its timers.

One tick: everything that was readable is given to the node, then one `flush` dispatches the
touched queues, confirms publishes and writes each connection's output once.

An internal error closes the connection in which it occurred. One outside of any connection is
logged and makes the broker unhealthy; when the next tick, or the next sweep, fails as well, the
broker is broken: it does nothing more, and its owner ends the process. The journal restores
everything.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING, Final

import structlog

from penstock.broker.timers import NEVER
from penstock.node.failures import FailureListener
from penstock.server.accepting import Acceptor, Refusals
from penstock.server.gathering import Gathering
from penstock.server.health import FAILURE_SHOWN_MS, Health
from penstock.server.lingering import Lingering
from penstock.server.listening import address_of, bound
from penstock.server.sockets import SocketOwner, SocketProtocol, SocketTransport
from penstock.world.disk import DiskError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from penstock.dialects.connection import Connection
    from penstock.dialects.encryption import Encryption
    from penstock.node.node import Node
    from penstock.server.handshakes import Handshakes
    from penstock.server.process_log import ProcessLog
    from penstock.server.tls import TlsListener
    from penstock.server.tls_settings import LoginFrom
    from penstock.world.clock import Clock

log = structlog.get_logger()

# How often heartbeats and handshake time-outs are checked. A heartbeat of one second, the
# shortest there is, is sent every half second and missed after two.
SWEEP_SECONDS: Final = 0.25
# The kernel's queue of connections not yet accepted; a reconnecting fleet comes all at once.
BACKLOG: Final = 4096
# How long clients have to answer connection.close when the server stops.
STOP_SECONDS: Final = 5.0
# Failures remembered as logged; at the limit all are forgotten and may be logged in full again.
TOLD_MAX: Final = 100
# How much of an exception's text is logged, which may hold what a client has sent.
REASON_CHARACTERS_MAX: Final = 500


class Server(SocketOwner):
    """Held by `launch` and by the in-process broker; lives on one event loop."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self.node = node
        self.health = Health(clock)
        # SASL mechanisms of the TLS listener and of WebSockets; None for those of the node.
        self.tls_mechanisms: tuple[str, ...] | None = None
        self.websocket_mechanisms: tuple[str, ...] | None = None
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._callback_failed)
        self._acceptors: list[Acceptor] = []
        self._refusals = Refusals()
        self._lingering = Lingering()
        # None without TLS.
        self.tls: Handshakes | None = None
        # Which part of a client's certificate names its user, whichever listener it came to.
        self.login_from: LoginFrom = "common_name"
        # Connections whose sockets linger; the node forgets them at the end of the tick.
        self._parting: list[Connection] = []
        self._flush_scheduled = False
        # When the tick began: a message that may only be delivered at once (time to live 0) is
        # still on time at its end.
        self._tick_began = 0
        self._gathering = Gathering(self._is_committing, self._loop, self.schedule_flush)
        # Sockets that have been read enough for this tick.
        self._resting: list[SocketTransport] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = NEVER
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        # For whoever looks at it: since when it runs, where it listens, and the limits of its alarms
        # (0 where none is watched).
        self.began = clock.now()
        self.listening: list[tuple[str, int]] = []
        self.tls_listeners: list[TlsListener] = []
        self.memory_bytes_max = 0
        # None in a process whose log is not ours.
        self.process_log: ProcessLog | None = None
        self.disk_bytes_min = 0
        # Called with every sweep; memory and disk watchers attach here.
        self.watchers: list[Callable[[int], None]] = []
        # In addition, `when_flooded` is called whenever this many bytes were received.
        self.flood_bytes: int = 0
        self.when_flooded: Callable[[int], None] | None = None
        self._received_bytes = 0
        # Watchers that failed last time: logged once, not with every sweep.
        self._blind: set[Callable[[int], None]] = set()
        # Called once when the disk cannot be trusted any more.
        self.when_storage_fails: Callable[[], None] | None = None

        # Called once when it has stopped: connections that it dialled end.
        self.when_stopped: list[Callable[[], None]] = []

        # What has failed since the last tick that was completed, and in the last sweep.
        self._has_failed = False
        self._has_sweep_failed = False
        # When each kind of failure was last logged with its traceback.
        self._told: dict[str, int] = {}
        # Set when the broker must not continue: the reason that its owner logs.
        self.breakdown = ""
        self.when_broken: Callable[[], None] | None = None
        node.failure_listener = NodeFailures(self)

    def now(self) -> int:
        return self._clock.now()

    def wall(self) -> int:
        """Milliseconds since 1970."""
        return self._clock.wall()

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Listen and return the address that was bound, the first one if there are more."""
        sockets = bound((host,), port, BACKLOG)
        self.accept_on(sockets)
        return address_of(sockets[0])

    def accept_on(
        self,
        sockets: Iterable[socket.socket],
        make_protocol: Callable[[], asyncio.Protocol] | None = None,
    ) -> None:
        """Take connections from sockets that listen."""
        for listening in sockets:
            self.listening.append(address_of(listening))
            self._acceptors.append(
                Acceptor(
                    listening, make_protocol or self._protocol, self._refusals, self._make_room
                )
            )

    def ports(self) -> list[int]:
        """On which it listens for AMQP."""
        return [acceptor.port for acceptor in self._acceptors]

    def _protocol(self) -> SocketProtocol:
        return SocketProtocol(self)

    def _make_room(self) -> None:
        """Close a socket that nobody would miss."""
        if not self._lingering.cut_oldest() and self.tls is not None:
            self.tls.cut_oldest()

    def is_full(self) -> bool:
        """Whether all connections are taken, by those whose TLS handshake is under way as well."""
        return self.node.is_full(0 if self.tls is None else len(self.tls))

    def refuse_for_limit(self) -> None:
        most = self.node.configuration.connections_max
        self._refusals.add(f"the limit of {most} connections is reached", self._loop.time())

    # Calls from sockets.

    def accepted(
        self,
        transport: SocketTransport,
        peer: tuple[str, int],
        encryption: Encryption | None = None,
    ) -> Connection | None:
        host = peer[0]
        now = self._clock.now()
        if self.tls is not None and encryption is None and self.is_full():
            # Who has not completed a handshake yet gives way.
            self.tls.cut_oldest()
        try:
            mechanisms = None if encryption is None else self.tls_mechanisms
            connection = self.node.connected(
                transport, host, is_loopback(host), now, peer[1], encryption, mechanisms
            )
        except Exception:
            # It has no connection yet that could be ended with a reason.
            log.exception("new connection failed", peer=host)
            connection = None
        else:
            if connection is None and not self.node.is_stopping:
                self.refuse_for_limit()
            elif connection is not None:
                own = transport.local_address()
                connection.peer.local_host, connection.peer.local_port = own
        self.schedule_flush()
        return connection

    def can_begin_tls(self) -> bool:
        return self.tls is not None

    def begin_tls(
        self, protocol: SocketProtocol, raw: asyncio.Transport, first: bytes
    ) -> asyncio.Transport:
        assert self.tls is not None, "asked for before"
        return self.tls.upgrade(protocol, raw, first)

    def received(self, connection: Connection, data: bytes) -> None:
        now = self._clock.now()
        try:
            connection.received(data, now)
        except Exception as error:
            self.node.connection_failed(connection, "reading what its client sent", error, now)
        self._received_bytes += len(data)
        self._gathering.received(len(data))
        if self._received_bytes >= self.flood_bytes and self.when_flooded is not None:
            self._received_bytes = 0
            self._watch(self.when_flooded, now)
        self.schedule_flush()

    def let_rest(self, transport: SocketTransport) -> None:
        self._resting.append(transport)
        self.schedule_flush()

    def writable(self, connection: Connection, is_writable: bool) -> None:
        try:
            connection.outgoing.set_writable(is_writable)
        except Exception as error:
            now = self._clock.now()
            self.node.connection_failed(connection, "resuming deliveries to it", error, now)
        if is_writable:
            self._gathering.press()
            self.schedule_flush()

    def finished(self, transport: SocketTransport, connection: Connection | None) -> None:
        self._lingering.add(transport, self._clock.now())
        if connection is not None:
            self._parting.append(connection)
            self.schedule_flush()

    def gone(self, transport: SocketTransport) -> None:
        self._lingering.discard(transport)

    def lost(self, connection: Connection) -> None:
        try:
            self.node.lost(connection, self._clock.now())
        except Exception as error:
            # What it held may not have been requeued for others.
            self.node.failed("requeuing what a lost connection held", error)
        self.schedule_flush()

    # Ticks.

    def schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            if not self._gathering.is_holding:
                self._tick_began = self._clock.now()
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self.breakdown:
            return
        if self._gathering.holds_back(self._tick_began, self._clock.now()):
            self._go_on()
            return
        node = self.node
        # Failures of timers and of lost connections count as the tick's before.
        had_failed, self._has_failed = self._has_failed, False
        try:
            node.flush(self._tick_began)
            if self._parting:
                self._part()
        except Exception as error:
            node.failed("flushing a tick", error)
        self._go_on()
        if node.storage_failure:
            if self.when_storage_fails is not None:
                self.when_storage_fails()
            return
        if self._has_failed:
            if had_failed:
                self._break("two ticks in a row have failed")
                return
            # The next tick shows whether the broker can continue.
            self.schedule_flush()
        else:
            now = self._clock.now()
            self.health.tick_completed(now)
            node.durability.times.written(now)
        if node.has_work():
            self._gathering.press()
            self.schedule_flush()
        due = node.timers.next_due()
        if due != self._timer_due:
            self._arm(due)

    def _is_committing(self) -> bool:
        member = self.node.member
        return member is not None and member.is_committing()

    def _go_on(self) -> None:
        """Read sockets again that have been read enough."""
        if self._resting:
            resting, self._resting = self._resting, []
            for transport in resting:
                transport.go_on()

    def _part(self) -> None:
        parting, self._parting = self._parting, []
        for connection in parting:
            self.lost(connection)

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
            self.node.fire_due(self._clock.now())
        except Exception as error:
            self.node.failed("firing timers", error)
        self.schedule_flush()

    def _sweep(self) -> None:
        self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        if self.breakdown:
            return
        now = self._clock.now()
        had_failed, self._has_sweep_failed = self._has_sweep_failed, False
        for watcher in self.watchers:
            self._watch(watcher, now)
        try:
            self.node.sweep(now, self._clock.wall())
            self._lingering.sweep(now)
        except Exception as error:
            self._has_sweep_failed = True
            self.node.failed("sweeping", error)
        if had_failed and self._has_sweep_failed:
            self._break("two sweeps in a row have failed")
        self.schedule_flush()

    def _watch(self, watcher: Callable[[int], None], now: int) -> None:
        """A watcher that fails must not prevent the check of time-outs."""
        try:
            watcher(now)
        except OSError as error:
            if watcher not in self._blind:
                self._blind.add(watcher)
                log.warning(
                    "cannot check memory or disk", watcher=type(watcher).__name__, reason=str(error)
                )
        except Exception as error:
            self._has_sweep_failed = not isinstance(error, DiskError)
            self.node.failed("checking memory or disk", error)
        else:
            self._blind.discard(watcher)

    # Internal errors.

    def failed(self, doing: str, error: Exception) -> None:
        """An internal error outside of any single connection."""
        now = self._clock.now()
        self._has_failed = True
        self.health.failed(doing, now)
        # A repeated error must not fill the disk with tracebacks.
        text = f"{doing}: {error!r}"
        told_at = self._told.get(text)
        is_known = told_at is not None and now - told_at < FAILURE_SHOWN_MS
        if not is_known:
            if len(self._told) >= TOLD_MAX:
                self._told.clear()
            self._told[text] = now
        log.critical(
            "internal error",
            doing=doing,
            reason=repr(error)[:REASON_CHARACTERS_MAX],
            exc_info=None if is_known else error,
        )

    def disk_failed(self, doing: str, error: Exception) -> None:
        """A report of the disk could not be handled: what waits for it would wait for ever."""
        if isinstance(error, OSError):
            self.node.storage_failed(f"{doing}: {error.strerror or error}")
        else:
            self.node.break_down(f"{doing}: {error!r}")
            self.node.failed(doing, error)
        self.schedule_flush()

    def _break(self, reason: str) -> None:
        self.breakdown = reason
        for acceptor in self._acceptors:
            acceptor.close()
        if self.when_broken is not None:
            self.when_broken()

    def _callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """An uncaught exception in any callback of the event loop."""
        del loop
        error = context.get("exception")
        what = str(context.get("message", ""))
        if isinstance(error, Exception) and not isinstance(error, OSError):
            self.node.failed(f"running a callback of the event loop ({what})", error)
            self.schedule_flush()
        else:
            # A socket that failed in an unusual way; its protocol is told as well.
            log.warning("event loop error", message=what, reason=str(error))

    async def stop(self, answer_seconds: float = STOP_SECONDS) -> None:
        """Accept no more connections, close the existing ones, wait a moment for the answers, and
        end.
        """
        for acceptor in self._acceptors:
            acceptor.close()
        if self.tls is not None:
            self.tls.close()
        if not self.breakdown:
            self.node.stop(self._clock.now())
            self.schedule_flush()
            await self._answers(answer_seconds)
        for connection in list(self.node.connections.values()):
            connection.outgoing.transport.abort()
        self._lingering.abort_all()
        for close in self.when_stopped:
            close()
        self._sweeper.cancel()
        self._gathering.close()
        if self._timer is not None:
            self._timer.cancel()

    async def note_clean_stop(self) -> None:
        """Record where the store ends; called after `stop`, when nothing more is written."""
        stored = self.node.stored
        if stored is None or self.node.storage_failure or self.breakdown:
            return
        began = self._loop.time()
        try:
            stored.note_clean_stop()
            while not stored.is_stop_noted() and self._loop.time() - began < STOP_SECONDS:
                await asyncio.sleep(0.005)
        except DiskError as error:
            # Nothing is lost: the next start runs recovery, as after a crash.
            log.warning(
                "cannot record the clean stop in the data directory; the next start runs recovery",
                reason=str(error),
            )

    async def _answers(self, answer_seconds: float) -> None:
        began = self._loop.time()
        waited = 0.0
        while (
            ((self.node.connections or len(self._lingering)) and waited < answer_seconds)
            or (not self.node.is_all_durable() and waited < STOP_SECONDS)
        ) and not self.breakdown:
            await asyncio.sleep(0.005)
            waited = self._loop.time() - began


class NodeFailures(FailureListener):
    """The server as its node sees it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def connection_failed(self, connection: Connection, doing: str, error: Exception) -> None:
        log.error(
            "connection failed",
            connection=connection.number,
            peer=connection.peer.host,
            doing=doing,
            exc_info=error,
        )

    def failed(self, doing: str, error: Exception) -> None:
        self._server.failed(doing, error)


def is_loopback(host: str) -> bool:
    """Whether a peer is on this machine. A Unix socket has no address and is."""
    if not host:
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
