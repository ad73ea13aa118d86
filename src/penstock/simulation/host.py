"""A node on the simulated world: what `server.server` is on the real one.

One tick: what arrived is given to the node, then one `flush` dispatches, confirms and writes. How
long a tick gathers is drawn, so that some gather one read and others many.
"""

from functools import partial
from typing import Final

from penstock.broker.timers import NEVER
from penstock.broker.users import Verification
from penstock.dialects.amqp091.connection import Connection
from penstock.dialects.amqp091.container import LoginChecker, LoginWaiter
from penstock.node.configuration import NodeConfiguration
from penstock.node.node import Node
from penstock.simulation.clock import Event, VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.endpoint import Endpoint, StreamUser
from penstock.simulation.entropy import SeededEntropy
from penstock.simulation.history import History
from penstock.simulation.network import Listener
from penstock.wire.amqp091.limits import Limits
from penstock.world.network import Transport

# As the server's.
SWEEP_US: Final = 250_000
# Most ticks end at once; a busy node gathers for up to this long.
TICK_US_MAX: Final = 2_000
BUSY_CHANCE: Final = 0.25
PASSWORD: Final = b"guest"
# About what argon2 takes on the real server; here only the time passes.
LOGIN_US_MIN: Final = 5_000
LOGIN_US_MAX: Final = 60_000


class DelayedLoginChecker(LoginChecker):
    """Compares instead of hashing, after a while. Held by the node's container."""

    def __init__(self, host: "Host", clock: VirtualClock, dice: Dice) -> None:
        self._host = host
        self._clock = clock
        self._dice = dice

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        delay = self._dice.between(LOGIN_US_MIN, LOGIN_US_MAX)
        self._clock.after(delay, partial(self._checked, verification, waiter))

    def _checked(self, verification: Verification, waiter: LoginWaiter) -> None:
        verification.good = verification.password == PASSWORD
        waiter.login_checked(verification, self._clock.now())
        self._host.schedule_flush()


class HostedConnection(StreamUser):
    """What `server.sockets.SocketProtocol` is on the real world. Held by its endpoint."""

    def __init__(self, host: "Host", endpoint: Endpoint, connection: Connection) -> None:
        self._host = host
        self._endpoint = endpoint
        self._connection = connection

    def received(self, data: bytes) -> None:
        self._host.received(self._connection, data)

    def lost(self) -> None:
        if self._endpoint.was_aborted:
            # Nothing but missed heartbeats makes a node give a line up.
            self._host.history.sighted("a node notices a cut by missed heartbeats")
        self._host.lost(self._connection)

    def writable_changed(self, writable: bool) -> None:
        if not writable:
            self._host.history.sighted("the node's write buffer is full")
        self._connection.outgoing.set_writable(writable)
        if writable:
            self._host.schedule_flush()


class Host(Listener):
    """Held by the stage, one for each node."""

    def __init__(
        self, name: str, clock: VirtualClock, dice: Dice, history: History, limits: Limits
    ) -> None:
        self.name = name
        self.clock = clock
        self.history = history
        self._dice = dice
        # Version and platform are fixed: both builds must give the same history.
        self.node = Node(
            NodeConfiguration("0", "simulated", name, limits),
            SeededEntropy(dice.fork("entropy")),
            DelayedLoginChecker(self, clock, dice.fork("logins")),
            clock.now(),
            clock.wall(),
        )
        self._flush_scheduled = False
        self._timer: Event | None = None
        self._timer_due = NEVER
        clock.after(SWEEP_US, self._sweep)

    # What the network says.

    def accept(self, endpoint: Endpoint, peer_host: str) -> StreamUser | None:
        transport = self.transport(endpoint)
        connection = self.node.connected(transport, peer_host, True, self.clock.now())
        self.schedule_flush()
        if connection is None:
            return None
        return HostedConnection(self, endpoint, connection)

    def transport(self, endpoint: Endpoint) -> Transport:
        """What the node writes to; a test that plants a defect puts something in between."""
        return endpoint

    def received(self, connection: Connection, data: bytes) -> None:
        connection.received(data, self.clock.now())
        self.schedule_flush()

    def lost(self, connection: Connection) -> None:
        self.node.lost(connection, self.clock.now())
        self.schedule_flush()

    def set_alarm(self, reason: str) -> None:
        self.history.add(f"{self.name} alarm '{reason}'")
        self.node.set_alarm("memory", reason, self.clock.now())
        self.schedule_flush()

    def stop(self) -> None:
        self.node.stop(self.clock.now())
        self.schedule_flush()

    # Ticks.

    def schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            is_busy = self._dice.chance(BUSY_CHANCE)
            self.clock.after(self._dice.between(1, TICK_US_MAX) if is_busy else 0, self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        self.node.flush(self.clock.now())
        if self.node.has_work():
            self.schedule_flush()
        due = self.node.timers.next_due()
        if due != self._timer_due:
            self._arm(due)

    def _arm(self, due: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_due = due
        if due != NEVER:
            delay = max(0, due * 1000 - self.clock.microseconds)
            self._timer = self.clock.after(delay, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_due = NEVER
        self.node.timers.fire_due(self.clock.now())
        self.schedule_flush()

    def _sweep(self) -> None:
        self.clock.after(SWEEP_US, self._sweep)
        self.node.sweep(self.clock.now(), self.clock.wall())
        self.schedule_flush()
