"""One run of the protocol: trouble, then healing with a minority dead, then equal replicas."""

from typing import Final

from penstock.cluster.record import ClusterRecord
from penstock.simulation.dice import Dice
from penstock.simulation.protocol.aims import AIMS, Aim
from penstock.simulation.protocol.faults import ProtocolFaults
from penstock.simulation.protocol.ledger import Violation
from penstock.simulation.protocol.rules import ProtocolRules
from penstock.simulation.protocol.server import SimulatedServer
from penstock.simulation.protocol.world import World

# Members and spare servers, and how often.
SIZES: Final = (((3, 0), 12), ((5, 0), 3), ((7, 0), 1), ((3, 1), 3), ((3, 2), 1))
AIMED_SIZE: Final = 3
AIM_US_MAX: Final = 10_000_000
FIRST_FAULT_US: Final = 500_000
CLIENT_US_MAX: Final = 80_000
STEP_US: Final = 50_000
# After healing: until something is confirmed, and until everybody is in sync. Ten elections.
RECOVERY_US_MAX: Final = 15_000_000
REFILL_US_MAX: Final = 20_000_000
# How often a root's disk hangs when all else is well, and for how long.
HANGS: Final = 0.1
HANG_US: Final = 8_000_000
CHECK_EVERY: Final = 4


class ProtocolRun:
    """Made for one seed."""

    def __init__(self, dice: Dice, rules: ProtocolRules, aim: str = "") -> None:
        """`aim` names a plan of `AIMS`, which is played by three servers."""
        self._dice: Dice = dice
        size, spares = (AIMED_SIZE, 0) if aim else dice.weighted(SIZES)
        self.world: World = World(dice.fork("world"), size, spares, rules)
        self._faults: ProtocolFaults = ProtocolFaults(self.world, dice.fork("faults"))
        self._aim: Aim | None = AIMS[aim](self.world, dice.fork("aim")) if aim else None
        self._client_dice: Dice = dice.fork("clients")
        self._is_over: bool = False
        self._turns: int = 0
        self._dead: set[str] = set()

    def play(self, milliseconds: int) -> None:
        """Raises `Violation`."""
        clock = self.world.clock
        for name in self.world.names:
            self.world.boot(name)
        if self._aim is None:
            clock.after(FIRST_FAULT_US, self._faults.strike)
        else:
            self._aim.look()
        clock.after(0, self._clients)
        clock.run(milliseconds * 1000)
        if self._aim is not None:
            self._reach(self._aim)
        self._heal()
        self._recover()
        self._refill()
        if self._dice.chance(HANGS):
            self._hang_root()
        self._is_over = True
        clock.run(1_000_000)
        self._compare()

    def _reach(self, aim: Aim) -> None:
        """It may be that the servers do something else than it waits for."""
        clock = self.world.clock
        until = clock.microseconds + AIM_US_MAX
        while not aim.is_reached and clock.microseconds < until:
            clock.run(STEP_US)

    def _clients(self) -> None:
        """They may well talk to a root that is deposed and does not know it."""
        if self._is_over:
            return
        world = self.world
        for server in list(world.servers.values()):
            if world.paused_until.get(server.name, 0) <= world.clock.microseconds:
                server.serve()
        self._turns += 1
        client_us_max = CLIENT_US_MAX
        if self._aim is None:
            self._faults.watch()
        else:
            client_us_max = self._aim.client_us_max or CLIENT_US_MAX
        if self._turns % CHECK_EVERY == 0:
            world.check()
            self._faults.operate()
        world.clock.after(self._client_dice.between(1_000, client_us_max), self._clients)

    def _heal(self) -> None:
        world = self.world
        self._faults.end()
        if self._aim is not None:
            self._aim.end()
            self._find_foreign_disk()
        # Flushes that hang already and servers that pause go on by themselves.
        world.clock.run(max(0, world.stands_until() - world.clock.microseconds))
        names = world.names
        # Servers that no root has heard yet, or that lost their disk, do not count as members.
        members = world.counted_members()
        needed = world.size // 2 + 1
        if len(names) == world.size and len(members) > needed:
            count = self._dice.between(0, len(members) - needed)
            while len(self._dead) < count:
                self._dead.add(self._dice.choose(members))
        world.note(f"healed; dead from now on: {sorted(self._dead)}")
        for name in names:
            if name in self._dead:
                world.crash(name)
            elif name not in world.servers:
                world.boot(name)

    def _find_foreign_disk(self) -> None:
        """The operator has to know of a disk that is not the one that the cluster knows."""
        records = [self.world.durable_record(name) for name in self.world.names]
        newest = max(records, key=ClusterRecord.order)
        for name in self.world.names:
            if not self.world.counts(newest, name):
                self._faults.to_replace = name

    def _recover(self) -> None:
        clock = self.world.clock
        until = clock.microseconds + RECOVERY_US_MAX
        before = self.world.ledger.sightings["confirmed"]
        while self.world.root() is None or self.world.ledger.sightings["confirmed"] == before:
            if clock.microseconds > until:
                raise Violation(f"P6: nothing was confirmed after healing: {self._picture()}")
            clock.run(STEP_US)

    def _is_full(self, root: SimulatedServer | None) -> bool:
        if root is None or self._faults.to_replace:
            return False
        record = root.election.record
        alive = [name for name in record.names() if name not in self._dead]
        return record == root.election.committed_record and list(record.in_sync) == alive

    def _refill(self) -> None:
        """Clients go on: a SYNC must end under load, and the root must stay."""
        clock = self.world.clock
        until = clock.microseconds + REFILL_US_MAX
        steps = 0
        while steps < 10:
            if clock.microseconds > until:
                raise Violation(f"P6: the in-sync set did not refill: {self._picture()}")
            clock.run(STEP_US)
            steps = steps + 1 if self._is_full(self.world.root()) else 0

    def _hang_root(self) -> None:
        """R15: a root whose disk hangs does not stand in the way of the others for ever."""
        world = self.world
        root = world.root()
        alive = [name for name in world.counted_members() if name not in self._dead]
        if root is None or len(alive) <= len(root.election.record.members) // 2 + 1:
            return
        world.ledger.sighted("disk of a root hangs while all else is well")
        world.hangs_until[root.name] = world.clock.microseconds + HANG_US
        world.clock.run(HANG_US * 3 // 4)
        if world.root() in (None, root):
            raise Violation(f"R15: {root.name} is the root, and its disk hangs: {self._picture()}")
        world.clock.run(HANG_US // 4)
        self._recover()
        self._refill()

    def _compare(self) -> None:
        world = self.world
        world.check()
        root = world.root()
        if root is None or not self._is_full(root) or root.primary is None:
            raise Violation(f"P6: the root did not stay: {self._picture()}")
        if root.primary.committed_k != root.primary.last_k:
            raise Violation("P6: an operation was never committed")
        for name in root.election.record.in_sync:
            store = world.disks[name].journal.store
            if store.syn != root.state.memory.syn:
                raise Violation(f"P6: {name} is at {store.syn}, the root at {root.state.syn()}")
            if store.contents() != root.state.memory.contents():
                raise Violation(f"replicas differ: {name} and the root {root.name}")
            world.ledger.sighted("equal replica")

    def _picture(self) -> str:
        return "; ".join(
            f"{name}: {server.election.role} {server.election.epoch} "
            f"{server.election.record.text()} {server.backup.role} {server.state.syn()}"
            for name, server in self.world.servers.items()
        )
