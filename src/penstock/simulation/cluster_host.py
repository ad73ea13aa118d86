"""A server of a simulated cluster: a host that dials others, is paused, and may lose its disk.

Its clock drifts, within the bound that leases allow for. While its process is paused (SIGSTOP), time
and the rest of the machine go on: what is meant for the process waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from penstock.broker.timers import NEVER
from penstock.cluster.election import Election
from penstock.cluster.promises import format_promises
from penstock.cluster.record import ClusterRecord
from penstock.dialects.connection import Connection
from penstock.node.cluster_member import ClusterMember
from penstock.node.cluster_settings import ClusterSettings
from penstock.node.joining import ClusterPlan
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dialler import HostDialler
from penstock.simulation.dice import Dice
from penstock.simulation.disk import SimulatedDisk, SimulatedFlush
from penstock.simulation.durable_host import DurableHost
from penstock.simulation.endpoint import Endpoint
from penstock.simulation.history import History
from penstock.simulation.host import HostClock
from penstock.simulation.lease_transport import Lease, LeaseTransport
from penstock.simulation.network import Network
from penstock.simulation.plans import StoragePlan
from penstock.simulation.watched_duties import HeirWatcher, WatchedDuties
from penstock.wire.amqp091.limits import Limits
from penstock.world.network import Transport

# Two clocks differ by a twentieth at most (`cluster.timing`), so each by half of it, in thousandths.
DRIFT_MAX: Final = 24


@dataclass(frozen=True, slots=True)
class ClusterWorld:
    """What all servers of one cluster share."""

    clock: VirtualClock
    history: History
    network: Network
    # Of a server of this name: the record that it is formatted with, and its settings.
    record: Callable[[str], ClusterRecord]
    settings: Callable[[str], ClusterSettings]
    limits: Limits
    storage: StoragePlan


class ClusterDisk(SimulatedDisk):
    """A disk that may hang, and whose answers wait for a paused process."""

    def __init__(self, clock: VirtualClock, dice: Dice, host: "ClusterHost") -> None:
        super().__init__(clock, dice)
        self._host = host

    def hang(self, microseconds: int) -> None:
        """No flush ends for a while."""
        self._flush_ends = max(self._flush_ends, self._clock.microseconds + microseconds)

    def wipe(self) -> None:
        """Everything on it is gone."""
        self._files.clear()
        self._removed.clear()

    def _flushed(self, flush: SimulatedFlush) -> None:
        if flush.incarnation != self.incarnation:
            return
        if not flush.fails:
            self._make_safe(flush)
        self._host.when_running(self._host.life, partial(self._answer, flush))

    def _answer(self, flush: SimulatedFlush) -> None:
        if flush.incarnation != self.incarnation:
            return
        now = self._host.now()
        if flush.fails:
            flush.listener.flush_failed("input/output error", now)
        else:
            flush.listener.flushed(flush.token, now)
        if self.when_answered is not None:
            self.when_answered()


class ElectionWatcher:
    """An observer: a ledger that knows what a new root must have."""

    def elected(self, host: "ClusterHost", epoch: int) -> None:
        """Its state is still that of a backup."""


class ClusterHost(DurableHost, Lease, HeirWatcher):
    """Held by the run."""

    disk: ClusterDisk

    def __init__(self, name: str, world: ClusterWorld, dice: Dice) -> None:
        self.world = world
        self._drift = dice.fork("drift").between(-DRIFT_MAX, DRIFT_MAX)
        self._pause_dice = dice.fork("pauses")
        self._paused_until = 0
        # What reached the process while it was paused: from outside, and its own timers.
        self._arrived: list[Callable[[], None]] = []
        self._fired: list[Callable[[], None]] = []
        # How many disks it has had.
        self.disk_count = 1
        self._is_formatted = False
        # What it told clients and must not have told them.
        self.broken_promises: list[str] = []
        # When one of these is true, the power is lost.
        self._crash_conditions: list[Callable[[], bool]] = []
        # It stays down from now on.
        self.is_dead = False
        self.election_watcher = ElectionWatcher()
        super().__init__(name, world.clock, dice, world.history, world.limits, world.storage)

    @property
    def member(self) -> ClusterMember:
        assert self.node.member is not None, "a member of a cluster"
        return self.node.member

    @property
    def election(self) -> Election:
        assert self.member.election is not None, "attached before anything happens"
        return self.member.election

    @property
    def record(self) -> ClusterRecord:
        return self.election.record

    @property
    def store_id(self) -> bytes:
        return f"{self.name}{self.disk_count}".encode().ljust(16, b".")

    def make_disk(self, clock: VirtualClock, dice: Dice) -> SimulatedDisk:
        return ClusterDisk(clock, dice, self)

    def transport(self, endpoint: Endpoint) -> Transport:
        return LeaseTransport(endpoint, self)

    def has_lease(self) -> bool:
        now = self.now()
        return self.member.primary is not None and now <= self.election.lease_until(now)

    def nack_sent(self) -> None:
        self.history.sighted("a NACK is sent")

    def promised_without_lease(self, method: int) -> None:
        self.broken_promises.append(
            f"{self.name} sends method {method >> 16}.{method & 0xFFFF} without a lease (R14)"
        )

    def cluster_plan(self) -> ClusterPlan | None:
        settings = self.world.settings(self.name)
        return ClusterPlan(settings, HostDialler(self, self.world.network), HostClock(self))

    def tick_time(self) -> int:
        """As in the server: the process may stand still between the beginning of a tick and its end."""
        return self.tick_began

    def start(self) -> None:
        self._paused_until = 0
        self._pause_in_tick_us = 0
        self._is_paused_in_tick = False
        self._arrived = []
        self._fired = []
        if not self._is_formatted:
            format_promises(self.disk, self.store_id, self.world.record(self.name))
            self._is_formatted = True
        super().start()
        assert self.member.duties is not None, "attached before anything happens"
        self.member.duties = WatchedDuties(self.member.duties, self)

    def inherits(self, epoch: int) -> None:
        self.election_watcher.elected(self, epoch)

    def may_serve(self) -> bool:
        return self.is_up and not self.is_paused and self.member.may_serve(self.now())

    def is_in_tick(self) -> bool:
        """Whether something has happened that is not written yet."""
        return self._flush_scheduled

    # Time.

    def now(self) -> int:
        return self._local_us() // 1000

    def _local_us(self) -> int:
        passed = self.clock.microseconds - self.boot_ms * 1000
        return passed + passed * self._drift // 1000

    def _arm(self, due: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_due = due
        if due != NEVER:
            left = max(0, due * 1000 - self._local_us())
            self._timer = self.later(left * 1000 // (1000 + self._drift) + 1, self._ring)

    # Pauses.

    @property
    def is_paused(self) -> bool:
        return self.clock.microseconds < self._paused_until

    def answers_from(self) -> int:
        return self._paused_until if self.is_up else 0

    def pause(self, microseconds: int) -> None:
        """The process stands still; everything that happens to it waits."""
        if self.is_up and not self.is_paused:
            self.history.add(f"{self.name} is paused")
            self._paused_until = self.clock.microseconds + microseconds
            self.clock.after(microseconds, partial(self._resume, self.life))

    def pause_in_tick(self, microseconds: int) -> None:
        """The same, but in the middle of a tick that has something for clients."""
        if self.is_up and not self.is_paused:
            self._pause_in_tick_us = microseconds

    def schedule_flush(self) -> None:
        super().schedule_flush()
        has_answers = self.node.state.touched or self.node.container.answer_list
        if self._pause_in_tick_us and has_answers:
            microseconds, self._pause_in_tick_us = self._pause_in_tick_us, 0
            self._is_paused_in_tick = True
            self.pause(microseconds)

    def _resume(self, life: int) -> None:
        if life != self.life or not self.is_up:
            return
        self.history.add(f"{self.name} goes on")
        arrived, fired = self._arrived, self._fired
        self._arrived, self._fired = [], []
        # An event loop looks at its sockets or at its timers first, unless it is in a tick.
        is_first = self._is_paused_in_tick or not self._pause_dice.chance(0.5)
        self._is_paused_in_tick = False
        actions = fired + arrived if is_first else arrived + fired
        for action in actions:
            self._if_alive(life, action)

    def when_running(self, life: int, action: Callable[[], None]) -> None:
        if not self.is_up or life != self.life:
            return
        if self.is_paused:
            self._arrived.append(action)
        else:
            action()

    def _if_alive(self, life: int, action: Callable[[], None]) -> None:
        if self.is_up and self.life == life:
            if self.is_paused:
                self._fired.append(action)
            else:
                action()

    def lost(self, connection: Connection) -> None:
        if self.is_up:
            super().lost(connection)

    # Faults.

    def _sight_state(self) -> None:
        super()._sight_state()
        if self._is_syncing():
            self.history.sighted("a crash comes inside a SYNC")
        if self._is_proposing():
            self.history.sighted("a root goes down with a record that is not committed")

    def lose_power_in_sync(self) -> None:
        """As soon as it is in the middle of a SYNC."""
        self._crash_conditions.append(self._is_syncing)

    def lose_power_proposing(self) -> None:
        """As soon as it has proposed a record as the root."""
        self._crash_conditions.append(self._is_proposing)

    def _is_syncing(self) -> bool:
        return self.member.backup.is_syncing

    def _is_proposing(self) -> bool:
        root = self.election.root
        return root is not None and not root.is_settled()

    def tick_ended(self) -> None:
        super().tick_ended()
        if any([condition() for condition in self._crash_conditions]):
            self._crash_conditions.clear()
            self.later(0, self.lose_power)

    def lose_disk(self) -> None:
        """The machine gets another disk, formatted for the same member."""
        if self.is_up:
            self.history.add(f"{self.name} loses its disk")
            self.format_again()

    def format_again(self) -> None:
        """An operator makes a new member of it."""
        self._is_formatted = False
        if self.is_up:
            self._go_down(is_power_lost=True)
        self.disk.wipe()
        self.disk_count += 1

    def calm_down(self) -> None:
        """There are no more faults."""
        self.is_calm = True
        self._crash_conditions.clear()
        self.disk.heal()

    def die(self) -> None:
        """It goes down and stays down."""
        self.is_dead = True
        self.history.add(f"{self.name} stays down")
        if self.is_up:
            self._go_down(is_power_lost=True)

    def _come_back(self) -> None:
        if not self.is_dead and not self.is_up:
            super()._come_back()
