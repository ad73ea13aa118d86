"""The simulated world of a cluster's protocol: servers, their disks and clocks, and the network."""

from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.cluster.member import Member
from penstock.cluster.promises import open_promises
from penstock.cluster.record import ClusterRecord, bootstrap_record
from penstock.cluster.timing import Timing, scaled
from penstock.ha.limits import HaLimits
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.protocol.connections import PeerConnections
from penstock.simulation.protocol.ledger import ProtocolLedger
from penstock.simulation.protocol.rules import ProtocolRules
from penstock.simulation.protocol.server import ServerDisk, SimulatedServer, Surroundings

NAMES: Final = "abcdefghi"
TICK_US: Final = 20_000
# Latencies of a flush.
DISKS_US: Final = (500, 5_000, 40_000)
DELAYS_US: Final = (2_000, 15_000, 80_000)


def small_limits() -> HaLimits:
    """Such that a handful of messages reaches them."""
    limits = HaLimits()
    limits.piece_bytes = 40
    limits.unacknowledged_bytes = 80
    limits.unsent_bytes = 300
    limits.kept_bytes = 8_000
    limits.ranges_per_message = 5
    limits.values_per_message = 64
    return limits


class World(Surroundings):
    """Held by a run and by everything in it."""

    def __init__(self, dice: Dice, size: int, spares: int, rules: ProtocolRules) -> None:
        self.dice: Dice = dice
        self.rules = rules
        self.clock: VirtualClock = VirtualClock()
        self.ledger = ProtocolLedger()
        self.limits = small_limits()
        # As fast as the protocol says for simulations: two fifths of the defaults.
        self.timing = scaled(Timing(), 2, 5)
        self.lines: list[str] = []
        self.names: list[str] = list(NAMES[: size + spares])
        self.size: int = size
        self.network = PeerConnections(
            self.clock, dice.fork("network"), dice.choose(DELAYS_US), self.when_awake
        )
        self.latency_us: dict[str, int] = {}
        self.hangs_until: dict[str, int] = {}
        self.paused_until: dict[str, int] = {}
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._rates: dict[str, float] = {}
        self._offsets: dict[str, int] = {}
        self._incarnations: int = 0
        self.disks = {}
        self.servers: dict[str, SimulatedServer] = {}
        # Durable records of servers that are down.
        self._records: dict[str, ClusterRecord] = {}
        for name in self.names:
            self.latency_us[name] = dice.choose(DISKS_US)
            self._rates[name] = 1 + (dice.fraction() - 0.5) * 0.04
            self._offsets[name] = dice.between(0, 50_000_000)
            self.format(name)
        self._first_stores: dict[str, bytes] = {n: disk.store_id for n, disk in self.disks.items()}

    def format(self, name: str) -> None:
        """An empty disk. A spare server is formatted with itself as a further member."""
        names = self.names[: self.size]
        if name not in names:
            names = [*names, name]
        members = [Member(other, address_of(other)) for other in names]
        record = bootstrap_record(bytes(16), members)
        self.disks[name] = ServerDisk(self.dice.octets(16), record)

    def now(self, name: str) -> int:
        """Milliseconds of a server's own clock, which drifts."""
        elapsed = self.clock.microseconds + self._offsets[name]
        return int(elapsed * self._rates[name]) // 1000

    def note(self, line: str) -> None:
        self.lines.append(f"{self.clock.microseconds} {line}")

    # Servers come and go.

    def boot(self, name: str) -> None:
        self._incarnations += 1
        dice = self.dice.fork(f"{name}/{self._incarnations}")
        self.note(f"{name} starts")
        server = SimulatedServer(self, name, self.disks[name], dice)
        self.servers[name] = server
        self._records.pop(name, None)
        self.network.booted(server)
        self.clock.after(self.dice.between(0, TICK_US), partial(self._tick, server))

    def crash(self, name: str) -> None:
        server = self.servers.pop(name, None)
        if server is None:
            return
        self.note(f"{name} crashes")
        self.ledger.sighted("crash")
        if server.backup.is_syncing:
            self.ledger.sighted("crash in the middle of a SYNC")
        if server.primary is not None:
            server.look_at_loss(server.primary)
        server.is_down = True
        self.network.crashed(name)
        self.disks[name].crash(self.dice)
        self._records[name] = open_promises(self.disks[name].promises).record

    def lose_disk(self, name: str) -> None:
        self.crash(name)
        self.note(f"{name} has lost its disk")
        self.ledger.sighted("disk lost")
        self.format(name)
        self.boot(name)

    def _tick(self, server: SimulatedServer) -> None:
        if server.is_down:
            return
        paused = self.paused_until.get(server.name, 0) - self.clock.microseconds
        if paused > 0:
            self.clock.after(paused, partial(self._tick, server))
            return
        server.tick()
        self.clock.after(TICK_US, partial(self._tick, server))

    def when_awake(self, name: str, run: Callable[[], None]) -> None:
        """What waits for the end of a pause stays in order."""
        waiting = self._waiting.setdefault(name, [])
        if not waiting and not self._is_paused(name):
            run()
            return
        waiting.append(run)
        if len(waiting) == 1:
            self._wake_later(name)

    def _is_paused(self, name: str) -> bool:
        return self.paused_until.get(name, 0) > self.clock.microseconds

    def resume(self, name: str) -> None:
        """A pause ends before its time; what has arrived meanwhile comes before the next tick."""
        self.paused_until[name] = 0
        self._wake(name)

    def _wake_later(self, name: str) -> None:
        delay = max(0, self.paused_until.get(name, 0) - self.clock.microseconds)
        self.clock.after(delay, partial(self._wake, name))

    def _wake(self, name: str) -> None:
        waiting = self._waiting.setdefault(name, [])
        while waiting and not self._is_paused(name):
            waiting.pop(0)()
        if waiting:
            self._wake_later(name)

    def after_flush(self, server: SimulatedServer, done: Callable[[], None]) -> None:
        """A flush takes its time, longer if the disk hangs."""
        name = server.name
        delay = int(self.latency_us[name] * (0.2 + 1.6 * server.dice.fraction()))
        delay = max(delay, self.hangs_until.get(name, 0) - self.clock.microseconds)
        self.clock.after(delay, partial(self._flush_done, server, done))

    def _flush_done(self, server: SimulatedServer, done: Callable[[], None]) -> None:
        if not server.is_down:
            self.when_awake(server.name, partial(self._flush_told, server, done))

    def _flush_told(self, server: SimulatedServer, done: Callable[[], None]) -> None:
        if not server.is_down:
            done()

    # What can be seen from outside.

    def root(self) -> SimulatedServer | None:
        """The active root of the highest epoch."""
        active = [s for s in self.servers.values() if s.election.role == "active"]
        return max(active, key=epoch_of_server) if active else None

    def durable_record(self, name: str) -> ClusterRecord:
        server = self.servers.get(name)
        return self._records[name] if server is None else server.election.promises.durable_record

    def stands_until(self) -> int:
        """When the last disk that hangs and the last server that pauses go on."""
        times = [*self.hangs_until.values(), *self.paused_until.values()]
        return max(times, default=0)

    def counted_members(self) -> list[str]:
        """Those that count by every record that some server has, or that is committed."""
        records = [self.durable_record(name) for name in self.names]
        records += [s.election.committed_record or s.election.record for s in self.servers.values()]
        found = self.names
        for record in records:
            found = [n for n in found if self.counts(record, n)]
        return found

    def counts(self, record: ClusterRecord, name: str) -> bool:
        """Whether a server's store is the one that a record means: the bound one, or its first."""
        member = record.find(name)
        if member is None:
            return False
        return self.disks[name].store_id == (member.store_id or self._first_stores[name])

    def check(self) -> None:
        """I5 of the newest root, and I2: whoever a majority could elect has everything."""
        roots = [s for s in self.servers.values() if s.primary is not None]
        if roots:
            newest = max(roots, key=epoch_of_server)
            self.ledger.check_root(newest.name, newest.election.epoch, newest.state.memory)
        records = {name: self.durable_record(name) for name in self.names}
        for record in {record.order(): record for record in records.values()}.values():
            if self._is_highest_of_a_majority(record, records):
                self._check_in_sync(record)

    def _is_highest_of_a_majority(
        self, highest: ClusterRecord, records: dict[str, ClusterRecord]
    ) -> bool:
        found = [
            name
            for name, record in records.items()
            if self.counts(highest, name) and record.order() <= highest.order()
        ]
        has_it = any(records[name].order() == highest.order() for name in found)
        return has_it and highest.is_majority(found)

    def _check_in_sync(self, record: ClusterRecord) -> None:
        for name in record.in_sync:
            if self.counts(record, name):
                who = f"{name}, in sync by record {record.order()},"
                self.ledger.check_holder(who, self.disks[name].journal.store)


def epoch_of_server(server: SimulatedServer) -> int:
    return server.election.epoch


def address_of(name: str) -> str:
    return f"127.0.0.1:{5672 + NAMES.index(name)}"
