"""Faults that are aimed: each plan waits for the moments that one rule of the protocol is about.

Random faults hardly ever reach them: a vote and an old root's record have to cross within a few
milliseconds. A plan looks at the servers often and does what is needed next; everything else is left
to the dice. A run with a plan has no random faults while there is trouble, and is healed and compared like any
other. With all rules on each of its seeds must be good.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from penstock.simulation.dice import Dice
from penstock.simulation.protocol.connections import SILENCE_US, SLOW
from penstock.simulation.protocol.server import ServerDisk, SimulatedServer
from penstock.simulation.protocol.world import World

AIM_REACHED: Final = "aim reached"
LOOK_US: Final = 1_000
# A flush that is slow enough for a plan to act before it ends, and one that is not.
SLOW_FLUSH_US: Final = 40_000
FAST_FLUSH_US: Final = 2_000
# Links that notice nothing; a root that stands still for as long as an election takes.
LONG_SILENCE_US: Final = 20_000_000
SHORT_HANG_US: Final = 300_000
LONG_PAUSE_US: Final = 3_000_000
CONFIRMS: Final = 3
# Clients that leave no time between two operations.
BUSY_CLIENT_US: Final = 3_000


class Aim(ABC):
    """Held by a run. Its steps are done one after the other, each when it says that it can be."""

    def __init__(self, world: World, dice: Dice) -> None:
        self.world: World = world
        self.dice: Dice = dice
        # The most that passes between two turns of the clients, if the plan wants to say so.
        self.client_us_max: int = 0
        self.first: str = ""
        self.second: str = ""
        self.third: str = ""
        self._step: int = 0
        self._since: int = 0
        self._is_over: bool = False
        world.network.delay_us_max = FAST_FLUSH_US
        world.latency_us = dict.fromkeys(world.names, FAST_FLUSH_US)

    @abstractmethod
    def steps(self) -> list[Callable[[], bool]]:
        """Each returns whether it is done."""

    @property
    def is_reached(self) -> bool:
        return self._step == len(self.steps())

    def end(self) -> None:
        """No more of it; the network is as it was."""
        self._is_over = True
        self.world.network.silence_us = SILENCE_US

    def look(self) -> None:
        if self._is_over:
            return
        steps = self.steps()
        while self._step < len(steps) and steps[self._step]():
            self._step += 1
            self._since = self.world.clock.microseconds
        if self.is_reached:
            self.world.ledger.sighted(AIM_REACHED)
            return
        self.world.clock.after(LOOK_US, self.look)

    # What steps are made of.

    def healthy_root(self) -> SimulatedServer | None:
        """An active root with all members in its committed in-sync set, and the stores of all others known."""
        root = self.world.root()
        if root is None or root.election.committed_record != root.election.record:
            return None
        record = root.election.record
        is_full = len(record.in_sync) == len(record.members)
        is_bound = all(m.store_id for m in record.members if m.name != root.name)
        return root if is_full and is_bound else None

    def take_roles(self) -> bool:
        """The root is the first; which of the others is the second is left to the dice."""
        root = self.healthy_root()
        if root is None or self.world.ledger.sightings["confirmed"] < CONFIRMS:
            return False
        others = [name for name in self.world.names if name != root.name]
        self.first = root.name
        self.second = self.dice.choose(others)
        self.third = next(name for name in others if name != self.second)
        return True

    def server(self, name: str) -> SimulatedServer:
        return self.world.servers[name]

    def passed(self, microseconds: int) -> bool:
        return self.world.clock.microseconds - self._since >= microseconds

    def cut(self, one: str, other: str) -> None:
        self.world.network.cuts |= {(one, other), (other, one)}

    def heal(self) -> None:
        self.world.network.heal()

    def primary_of(self, name: str) -> bool:
        server = self.world.servers.get(name)
        return server is not None and server.primary is not None


class LateRecord(Aim):
    """R7. The root drops the second server; its record reaches the third one, which has acknowledged
    everything, after that one has voted for the second.
    """

    def steps(self) -> list[Callable[[], bool]]:
        return [
            self.take_roles,
            self._separate,
            self._hold_record_back,
            self._pause,
            self._delay_election,
            self._let_record_through,
            self._wake,
        ]

    def _separate(self) -> bool:
        self.world.network.silence_us = LONG_SILENCE_US
        self.world.latency_us[self.first] = SLOW_FLUSH_US
        self.world.latency_us[self.second] = SLOW_FLUSH_US
        self.cut(self.first, self.second)
        return True

    def _hold_record_back(self) -> bool:
        root = self.world.servers.get(self.first)
        if root is None or self.second in root.election.record.in_sync:
            return False
        self.world.network.cuts.add((self.first, self.third))
        return True

    def _pause(self) -> bool:
        election = self.server(self.first).election
        if election.promises.durable_record != election.record:
            return False
        until = self.world.clock.microseconds + LONG_PAUSE_US
        self.world.paused_until[self.first] = until
        return True

    def _delay_election(self) -> bool:
        """The third server has voted, left the old root and makes a new link to it."""
        if self.server(self.third).election.promises.voted_for != self.second:
            return False
        self.world.hangs_until[self.second] = self.world.clock.microseconds + SHORT_HANG_US
        self.world.network.cuts.discard((self.first, self.third))
        return True

    def _let_record_through(self) -> bool:
        network = self.world.network
        if network.open_to(self.third, self.first) is None:
            return False
        for connection in list(network.dialled.values()):
            if {connection.dialler, connection.listener} == {self.first, self.third}:
                connection.go_on()
        return True

    def _wake(self) -> bool:
        """Before it notices that its lease is over."""
        if not self.passed(100_000):
            return False
        self.world.resume(self.first)
        self.heal()
        return True


class HalfWrittenRecord(Aim):
    """R6. A root is lost whose last record, which lets the third server in, nobody else has. It comes
    back and follows the second server, while the third one misses what that confirms.
    """

    def steps(self) -> list[Callable[[], bool]]:
        return [
            self._bind,
            self.take_roles,
            self._isolate_third,
            self._let_third_return,
            self._keep_record,
            self._crash_root,
            self._return_of_the_first,
            self._confirm,
        ]

    def _bind(self) -> bool:
        """Without the rule a root does not say which store is its own; the next one does."""
        root = self.healthy_root()
        if root is None:
            return False
        own = root.election.record.find(root.name)
        if own is not None and not own.store_id:
            others = [name for name in self.world.names if name != root.name]
            root.election.hand_over(self.dice.choose(others), root.now())
            return False
        return True

    def _isolate_third(self) -> bool:
        self.cut(self.third, self.first)
        self.cut(self.third, self.second)
        return True

    def _let_third_return(self) -> bool:
        root = self.world.root()
        if root is None or self.third in root.election.record.in_sync:
            return False
        if root.election.committed_record != root.election.record:
            return False
        self.world.latency_us[self.first] = SLOW_FLUSH_US
        self.heal()
        return True

    def _keep_record(self) -> bool:
        if self.third not in self.server(self.first).election.record.in_sync:
            return False
        self.world.network.cuts |= {(self.first, self.second), (self.first, self.third)}
        return True

    def _crash_root(self) -> bool:
        if self.third not in self.server(self.first).election.promises.durable_record.in_sync:
            return False
        self.world.crash(self.first)
        return True

    def _return_of_the_first(self) -> bool:
        if not self.primary_of(self.second):
            return False
        self.heal()
        self.world.hangs_until[self.third] = self.world.clock.microseconds + LONG_PAUSE_US
        self.world.boot(self.first)
        return True

    def _confirm(self) -> bool:
        return self.passed(LONG_PAUSE_US)


class ReturnedDisk(Aim):
    """R10. The third server gets another disk, and the record that says so reaches that disk alone;
    then the old disk returns, whose vote counts by what the second server knows.
    """

    def __init__(self, world: World, dice: Dice) -> None:
        super().__init__(world, dice)
        self._old_disk: ServerDisk | None = None

    def steps(self) -> list[Callable[[], bool]]:
        return [
            self.take_roles,
            self._change_disk,
            self._replace,
            self._confirm_without_second,
            self._return_disk,
            self._return_of_the_first,
        ]

    def _change_disk(self) -> bool:
        self._old_disk = self.world.disks[self.third]
        self.world.crash(self.third)
        self.world.format(self.third)
        self.world.boot(self.third)
        return True

    def _replace(self) -> bool:
        root = self.server(self.first)
        if not self.primary_of(self.first):
            return True
        store_id = self.world.disks[self.third].store_id
        if root.election.store_id_of(self.third) != store_id or not self.passed(100_000):
            return False
        if root.election.replace_member(self.third, root.now()):
            # It has not answered a heartbeat yet.
            return False
        self.cut(self.second, self.first)
        self.cut(self.second, self.third)
        return True

    def _confirm_without_second(self) -> bool:
        """Impossible if the rule is kept; then the second server returns."""
        root = self.world.root()
        record = None if root is None else root.election.committed_record
        if record is not None and self.second not in record.in_sync and self.passed(1_500_000):
            return True
        if self.passed(2_000_000):
            self.heal()
        return self.passed(4_000_000)

    def _return_disk(self) -> bool:
        assert self._old_disk is not None
        self.world.crash(self.first)
        self.world.crash(self.third)
        self.world.disks[self.third] = self._old_disk
        self.heal()
        self.world.boot(self.third)
        return True

    def _return_of_the_first(self) -> bool:
        if not self.passed(1_500_000):
            return False
        self.world.boot(self.first)
        return True


class SlowerBackup(Aim):
    """R12. A backup whose disk is a little slower than the others' returns while clients leave no
    time between two operations.
    """

    def steps(self) -> list[Callable[[], bool]]:
        return [self.take_roles, self._lose_third, self._third_returns]

    def _lose_third(self) -> bool:
        self.client_us_max = BUSY_CLIENT_US
        self.world.latency_us[self.third] = SLOW_FLUSH_US
        self.world.crash(self.third)
        return True

    def _third_returns(self) -> bool:
        root = self.world.root()
        if root is None or self.third in root.election.record.in_sync:
            return False
        self.world.boot(self.third)
        return True

    def end(self) -> None:
        super().end()
        # That has to be lived with.
        self.world.latency_us[self.third] = SLOW_FLUSH_US


class InterruptedSync(Aim):
    """S9, S4. The second server lacks operations of a root that was lost and is in a SYNC with the third
    one, to which the record says that it is in sync. Then that one stands still.
    """

    def steps(self) -> list[Callable[[], bool]]:
        return [self._choose, self._fall_behind, self._crash_root, self._pause, self._finish]

    def _choose(self) -> bool:
        if not self.take_roles():
            return False
        # The more senior one is elected, and the other one joins it.
        self.third, self.second = sorted((self.second, self.third))
        self.world.network.rates[self.first, self.second] = SLOW
        return True

    def _fall_behind(self) -> bool:
        root = self.server(self.first)
        if root.primary is None or not self.passed(200_000):
            return root.primary is None
        return root.primary.acked_k(self.third) > root.primary.acked_k(self.second) + 1

    def _crash_root(self) -> bool:
        self.world.network.silence_us = LONG_SILENCE_US
        self.world.network.rates[self.third, self.second] = SLOW
        self.world.crash(self.first)
        return True

    def _pause(self) -> bool:
        if not self.primary_of(self.third) or not self.server(self.second).backup.missing():
            return False
        self.world.boot(self.first)
        until = self.world.clock.microseconds + LONG_PAUSE_US
        self.world.paused_until[self.third] = until
        return True

    def _finish(self) -> bool:
        return self.passed(LONG_PAUSE_US)


AIMS: Final[dict[str, type[Aim]]] = {
    "late-record": LateRecord,
    "half-written-record": HalfWrittenRecord,
    "returned-disk": ReturnedDisk,
    "slower-backup": SlowerBackup,
    "interrupted-sync": InterruptedSync,
}
