"""A node in the simulated world: the counterpart of `server.server` in the real one.

One tick: what arrived is given to the node, then one `flush` dispatches, confirms and writes. How
long a tick gathers is drawn, so that some gather one read and others many.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.broker.access.users import Verification
from penstock.broker.store.limits import StoreLimits
from penstock.broker.timers import NEVER
from penstock.dialects.connection import Connection
from penstock.dialects.login_checker import LoginChecker, LoginWaiter
from penstock.dialects.turn import COMMIT_STEP_COUNT, TURN_UNITS_MAX
from penstock.node.configuration import NodeConfiguration
from penstock.node.joining import ClusterPlan
from penstock.node.node import Node
from penstock.simulation.clock import Event, VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.endpoint import Endpoint, StreamUser
from penstock.simulation.entropy import SeededEntropy
from penstock.simulation.history import History
from penstock.simulation.network import Listener
from penstock.simulation.plans import StoragePlan
from penstock.wire.amqp091.limits import Limits
from penstock.wire.amqp10.limits import Limits as Amqp10Limits
from penstock.world.clock import Clock
from penstock.world.disk import Disk
from penstock.world.network import Transport

# The server's value.
SWEEP_US: Final = 250_000
# Most ticks end at once; a busy node gathers for up to this long.
TICK_US_MAX: Final = 2_000
BUSY_CHANCE: Final = 0.25
# A declare costs a third of it.
FEW_UNITS: Final = 60
PASSWORD: Final = b"guest"
# About what argon2 takes on the real server; here only the time passes.
LOGIN_US_MIN: Final = 5_000
LOGIN_US_MAX: Final = 60_000
# A silence is noticed within a run, and a window of this size fills.
AMQP10_LIMITS: Final = Amqp10Limits(idle_ms=1_000, incoming_window=32)


class DelayedLoginChecker(LoginChecker):
    """Compares instead of hashing, after a while. Held by the node's container."""

    def __init__(self, host: "Host", dice: Dice) -> None:
        self._host = host
        self._dice = dice

    def check(self, verification: Verification, waiter: LoginWaiter) -> None:
        delay = self._dice.between(LOGIN_US_MIN, LOGIN_US_MAX)
        self._host.later(delay, partial(self._checked, verification, waiter))

    def _checked(self, verification: Verification, waiter: LoginWaiter) -> None:
        verification.good = verification.password == PASSWORD
        waiter.login_checked(verification, self._host.now())
        self._host.schedule_flush()


class HostedConnection(StreamUser):
    """The counterpart of `server.sockets.SocketProtocol`. Held by its endpoint."""

    def __init__(self, host: "Host", endpoint: Endpoint, connection: Connection) -> None:
        self._host = host
        self._endpoint = endpoint
        self._connection = connection
        self._life = host.life

    def received(self, data: bytes) -> None:
        self._host.when_running(self._life, partial(self._received, data))

    def _received(self, data: bytes) -> None:
        self._host.received(self._connection, data)

    def lost(self) -> None:
        self._host.when_running(self._life, self._lost)

    def _lost(self) -> None:
        if self._endpoint.was_aborted:
            # Only missed heartbeats make a node give up a connection.
            self._host.history.sighted("a node notices a cut by missed heartbeats")
        self._host.lost(self._connection)

    def writable_changed(self, writable: bool) -> None:
        if not writable:
            self._host.history.sighted("the node's write buffer is full")
        self._connection.outgoing.set_writable(writable)
        if writable:
            self._host.schedule_flush()


class HostClock(Clock):
    """The machine's clocks, for the few who read them by themselves. Held by its node."""

    def __init__(self, host: "Host") -> None:
        self._host = host

    def now(self) -> int:
        return self._host.now()

    def wall(self) -> int:
        return self._host.clock.wall()


class HostWatcher:
    """An observer: a ledger that must know what a restart may lose and what not."""

    def tick_ended(self, host: "Host") -> None:
        """Everything that the tick brought is written."""


class Host(Listener):
    """Held by the run, one for each node."""

    def __init__(
        self,
        name: str,
        clock: VirtualClock,
        dice: Dice,
        history: History,
        limits: Limits,
        storage: StoragePlan | None = None,
    ) -> None:
        self.name = name
        self.clock = clock
        self.history = history
        self.watcher = HostWatcher()
        self._dice = dice
        self._limits = limits
        # Increased with every start: events that an earlier process scheduled do not happen.
        self.life = 0
        self.is_up = False
        # What the run's clock showed when the machine's began.
        self.boot_ms = 0
        self._storage = storage
        self.start()

    def start(self) -> None:
        self.life += 1
        self.node = self.make_node()
        self.is_up = True
        self._flush_scheduled = False
        self.tick_began = 0
        self._timer: Event | None = None
        self._timer_due = NEVER
        self.later(SWEEP_US, self._sweep)

    def is_idle(self) -> bool:
        """Whether no client is connected, and nothing is left to be done."""
        node = self.node
        is_used = node.connections or node.amqp10.links.suspended_count()
        return self.is_up and not is_used and not node.has_work()

    def data_disk(self) -> Disk | None:
        return None

    def cluster_plan(self) -> ClusterPlan | None:
        return None

    def make_node(self) -> Node:
        clock = self.clock
        # Little in half of the lives, so that declares wait for their turn and commits take several.
        dice = self._dice.fork(f"turns{self.life}")
        is_slow = dice.chance(0.5)
        store = StoreLimits() if self._storage is None else self._storage.limits
        # Version and platform are fixed: both builds must give the same history.
        return Node(
            NodeConfiguration(
                "0",
                "simulated",
                self.name,
                self._limits,
                store=store,
                amqp10_limits=AMQP10_LIMITS,
                turn_units_max=dice.between(1, FEW_UNITS) if is_slow else TURN_UNITS_MAX,
                commit_step_count=1 if is_slow else COMMIT_STEP_COUNT,
            ),
            SeededEntropy(self._dice.fork(f"entropy{self.life}")),
            DelayedLoginChecker(self, self._dice.fork(f"logins{self.life}")),
            self.now(),
            clock.wall(),
            self.data_disk(),
            None,
            self.cluster_plan(),
        )

    def now(self) -> int:
        """The machine's own monotonic clock, in milliseconds."""
        return self.clock.now() - self.boot_ms

    def later(self, microseconds: int, action: Callable[[], None]) -> Event:
        """Like the clock's `after`, but not beyond the death of the process."""
        return self.clock.after(microseconds, partial(self._if_alive, self.life, action))

    def _if_alive(self, life: int, action: Callable[[], None]) -> None:
        if self.is_up and self.life == life:
            action()

    def when_running(self, life: int, action: Callable[[], None]) -> None:
        """Something reaches the process of that start."""
        del life
        action()

    # Calls from the network.

    def swept(self) -> None:
        """The place of the server's memory and disk watchers."""

    def accept(self, endpoint: Endpoint, peer_host: str) -> StreamUser | None:
        transport = self.transport(endpoint)
        connection = self.node.connected(transport, peer_host, True, self.now())
        self.schedule_flush()
        if connection is None:
            return None
        return HostedConnection(self, endpoint, connection)

    def has_dialled(self, endpoint: Endpoint) -> None:
        """This end of a line belongs to a connection that the node has dialled."""

    def transport(self, endpoint: Endpoint) -> Transport:
        """What the node writes to; a test that plants a defect puts something in between."""
        return endpoint

    def received(self, connection: Connection, data: bytes) -> None:
        connection.received(data, self.now())
        self.schedule_flush()

    def lost(self, connection: Connection) -> None:
        self.node.lost(connection, self.now())
        self.schedule_flush()

    def set_alarm(self, reason: str) -> None:
        self.history.add(f"{self.name} alarm '{reason}'")
        self.node.set_alarm("memory", reason, self.now())
        self.schedule_flush()

    def stop(self) -> None:
        self.node.stop(self.now())
        self.schedule_flush()

    # Ticks.

    def schedule_flush(self) -> None:
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.tick_began = self.now()
            is_busy = self._dice.chance(BUSY_CHANCE)
            self.later(self._dice.between(1, TICK_US_MAX) if is_busy else 0, self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        self.node.flush(self.tick_time())
        if self.node.storage_failure:
            self.storage_failed(self.node.storage_failure)
            return
        self.tick_ended()
        if self.node.has_work():
            self.work_on()
        due = self.node.timers.next_due()
        if due != self._timer_due:
            self._arm(due)

    def tick_time(self) -> int:
        """What a tick takes for the present time."""
        return self.now()

    def tick_ended(self) -> None:
        self.watcher.tick_ended(self)

    def work_on(self) -> None:
        """The node has more to do in its next tick."""
        self.schedule_flush()

    def storage_failed(self, reason: str) -> None:
        raise AssertionError(f"a node without a disk says: {reason}")

    def _arm(self, due: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_due = due
        if due != NEVER:
            delay = max(0, (due + self.boot_ms) * 1000 - self.clock.microseconds)
            self._timer = self.later(delay, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._timer_due = NEVER
        self.node.timers.fire_due(self.now())
        self.schedule_flush()

    def _sweep(self) -> None:
        self.later(SWEEP_US, self._sweep)
        self.swept()
        self.node.sweep(self.now(), self.clock.wall())
        self.schedule_flush()
