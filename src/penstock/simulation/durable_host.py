"""A host with a disk: its process dies, its power or disk fails, and it restarts.

It can go down between any two events: at the end of a tick, in the middle of one, during a flush,
before the first flush after a start. It restarts after a while on the same disk.
"""

from functools import partial
from typing import Final

from penstock.node.node import Node
from penstock.node.stored import StoredState
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.disk import FLUSH_US_MAX, SimulatedDisk
from penstock.simulation.endpoint import Endpoint, StreamUser
from penstock.simulation.history import History
from penstock.simulation.host import Host, HostWatcher
from penstock.simulation.plans import StoragePlan
from penstock.storage.segment import FOLDER
from penstock.wire.amqp091.limits import Limits
from penstock.world.disk import Disk, DiskError, DiskFull

DOWN_US_MAX: Final = 1_200_000
# A monotonic clock begins again with the machine, long before the node starts or just before it.
BOOTED_MS_MAX: Final = 100_000
WORK_US_MAX: Final = 10_000
# One after the other: the second crash meets a node that has just recovered.
SOON_AGAIN_CHANCE: Final = 0.3
SOON_US_MAX: Final = 8_000
# A clean stop waits this long for clients, as the server does.
STOP_US: Final = 2_000_000
STOP_LOOK_US: Final = 50_000
# Below this the disk alarm is raised.
ALARM_FREE_BYTES: Final = 6_000


def stored_of(node: Node) -> StoredState:
    assert node.stored is not None, "a durable host has a disk"
    return node.stored


class RecoveryWatcher(HostWatcher):
    """Compares the state before a crash with the state after it."""

    def went_down(self, host: "DurableHost", was_power_lost: bool) -> None:
        """The process is dead and the disk is as the crash left it."""

    def comes_back(self, host: "DurableHost") -> None:
        """About to start: the disk is as it was found."""

    def came_back(self, host: "DurableHost") -> None:
        """The new node has recovered; no client has connected yet."""


class DurableHost(Host):
    """Held by the run."""

    def __init__(
        self,
        name: str,
        clock: VirtualClock,
        dice: Dice,
        history: History,
        limits: Limits,
        storage: StoragePlan | None = None,
    ) -> None:
        self.disk = self.make_disk(clock, dice.fork("disk"))
        self.disk.when_asked = self._disk_asked
        self.disk.when_answered = self._disk_answered
        # The power is lost during the next flush, or in the middle of reclaiming.
        self._loses_power_soon = False
        self._loses_power_copying = False
        self.recovery_watcher = RecoveryWatcher()
        self._endpoints: list[Endpoint] = []
        self._is_stopping = False
        # Whether it has begun to record a clean stop.
        self._is_noting = False
        # There are no more faults, but failed nodes must still recover.
        self.is_calm = False
        # How far the journal was durable when the process started.
        self._safe_at_start = 0
        super().__init__(name, clock, dice, history, limits, storage)

    def start(self) -> None:
        self.recovery_watcher.comes_back(self)
        super().start()
        self._is_stopping = False
        self._is_noting = False
        stored = stored_of(self.node)
        self._safe_at_start = self.node.durability.durable
        if stored.torn_tail is not None:
            self.history.sighted("a torn tail is cut")
        tail = stored.torn_tail.octets if stored.torn_tail is not None else 0
        self.history.add(
            f"{self.name} starts: {stored.recovered_count} messages, journal "
            f"{stored.journal.position}, torn {tail}"
        )
        self.recovery_watcher.came_back(self)
        self.schedule_flush()

    def is_idle(self) -> bool:
        segments = [name for name in self.disk.names() if name.startswith(FOLDER)]
        return (
            super().is_idle()
            and self.node.is_all_durable()
            and len(segments) == len(stored_of(self.node).journal.segments())
        )

    @property
    def segment_bytes_max(self) -> int:
        assert self._storage is not None, "a durable host has a disk"
        return self._storage.limits.segment_bytes_max

    def data_disk(self) -> Disk | None:
        return self.disk

    def accept(self, endpoint: Endpoint, peer_host: str) -> StreamUser | None:
        if not self.is_up:
            return None
        self.has_dialled(endpoint)
        return super().accept(endpoint, peer_host)

    def has_dialled(self, endpoint: Endpoint) -> None:
        """It ends with the process, as those do that were accepted."""
        self._endpoints = [known for known in self._endpoints if not known.is_over]
        self._endpoints.append(endpoint)

    def make_disk(self, clock: VirtualClock, dice: Dice) -> SimulatedDisk:
        """A test that plants a defect overrides this with a faulty disk."""
        return SimulatedDisk(clock, dice)

    def tick_ended(self) -> None:
        super().tick_ended()
        if self._loses_power_copying and stored_of(self.node).reclaimer.is_busy():
            self._loses_power_copying = False
            self.later(0, self.lose_power)

    def work_on(self) -> None:
        """Not at once: reclaiming then meets clients that go on meanwhile."""
        self.later(self._dice.between(0, WORK_US_MAX), self.schedule_flush)

    def _disk_asked(self) -> None:
        if self._loses_power_soon:
            self._loses_power_soon = False
            self.later(self._dice.between(0, FLUSH_US_MAX), self.lose_power)

    def _disk_answered(self) -> None:
        self.schedule_flush()

    # Faults.

    def kill(self) -> None:
        """The process dies; what it wrote is still in the page cache."""
        if self.is_up:
            self._sight_state()
            self.history.add(f"{self.name} is killed")
            self._go_down(is_power_lost=False)

    def lose_power(self) -> None:
        if self.is_up:
            self._sight_state()
            self.history.add(f"{self.name} loses power")
            self._go_down(is_power_lost=True)

    def lose_power_soon(self) -> None:
        self._loses_power_soon = True

    def lose_power_copying(self) -> None:
        self._loses_power_copying = True

    def stop_cleanly(self) -> None:
        if self.is_up and not self._is_stopping:
            self._is_stopping = True
            self.history.add(f"{self.name} stops")
            self.stop()
            self._wait_for_end(STOP_US)

    def storage_failed(self, reason: str) -> None:
        """Like the server: it ends and is restarted. What the system does with pages that it could
        not write is unknown, so half of the time they are lost.
        """
        self.history.sighted(f"a node stops: {reason.rpartition(': ')[2]}")
        self.history.add(f"{self.name} stops by itself: {reason}")
        self._go_down(is_power_lost=self._dice.chance(0.5))

    def swept(self) -> None:
        is_low = self.disk.free_bytes() < ALARM_FREE_BYTES
        if is_low:
            self.history.sighted("a disk alarm is raised")
        self.node.set_alarm("disk", "low on disk" if is_low else "", self.now())

    def _wait_for_end(self, left: int) -> None:
        if not self._is_noting and not self.node.connections and self.node.is_all_durable():
            try:
                stored_of(self.node).note_clean_stop()
            except DiskError:
                left = 0
            self._is_noting = True
        is_done = self._is_noting and stored_of(self.node).is_stop_noted()
        if is_done or left <= 0:
            if is_done:
                self.history.sighted("a node stops in order")
            self._go_down(is_power_lost=False)
        else:
            self.later(STOP_LOOK_US, partial(self._wait_for_end, left - STOP_LOOK_US))

    def _go_down(self, *, is_power_lost: bool) -> None:
        self.is_up = False
        for endpoint in self._endpoints:
            endpoint.user = None
            if is_power_lost and self._dice.chance(0.5):
                # The process is dead and sends nothing; the other end finds out by itself.
                endpoint.is_cut = True
                endpoint.peer.is_cut = True
            else:
                endpoint.abort()
        self._endpoints = []
        if is_power_lost:
            self.boot_ms = self.clock.now() - self._dice.between(1, BOOTED_MS_MAX)
            self.disk.boot_ms = self.boot_ms
            self.disk.crash()
            if any(name.startswith(FOLDER) for name in self.disk.undone_names):
                self.history.sighted("a power loss undoes a removal")
        else:
            self.disk.kill()
        self.recovery_watcher.went_down(self, is_power_lost)
        self.clock.after(self._dice.between(1, DOWN_US_MAX), self._come_back)

    def _come_back(self) -> None:
        try:
            self.start()
        except DiskFull as error:
            # Like the server: it reports the error and ends, and is restarted.
            self.history.sighted("a start finds no room")
            self.history.add(f"{self.name} cannot start: {error}")
            self.disk.kill()
            self.clock.after(self._dice.between(1, DOWN_US_MAX), self._come_back)
            return
        if not self.is_calm and self._dice.chance(SOON_AGAIN_CHANCE):
            crash = self._dice.choose([self.kill, self.lose_power])
            self.later(self._dice.between(0, SOON_US_MAX), crash)

    def _sight_state(self) -> None:
        stored = stored_of(self.node)
        if stored.reclaimer.is_busy():
            self.history.sighted("a crash interrupts the copying of a segment")
        if not self.node.is_all_durable():
            self.history.sighted("a crash comes before a flush ends")
            if self.node.durability.durable == self._safe_at_start:
                self.history.sighted("a crash comes before the first flush after a start")
