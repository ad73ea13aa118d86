"""What goes wrong in a run of the protocol."""

from collections.abc import Callable
from typing import Final

from penstock.simulation.dice import Dice
from penstock.simulation.protocol.connections import FAST, SLOW
from penstock.simulation.protocol.world import World, address_of

MEMBERS_MIN: Final = 3
GAPS_US: Final = (120_000, 300_000, 800_000)


class ProtocolFaults:
    """Held by a run while there is trouble."""

    def __init__(self, world: World, dice: Dice) -> None:
        self._world: World = world
        self._dice: Dice = dice
        self._gap_us: int = dice.choose(GAPS_US)
        self.is_over: bool = False
        # A server whose disk was lost and whose new store is not a member's yet.
        self.to_replace: str = ""
        self._kinds: list[tuple[Callable[[], None], int]] = [
            (self._crash_one, 2),
            (self._crash_root, 2),
            (self._restart, 5),
            (self._isolate, 1),
            (self._cut_one_way, 2),
            (self._cut_in_halves, 1),
            (self._heal_cuts, 4),
            (self._pause, 2),
            (self._power, 1),
            (self._slow_disk, 1),
            (self._hang_disk, 1),
            (self._break_connection, 4),
            (self._slow_line, 4),
            (self._hand_over, 1),
            (self._lose_disk, 1),
            (self._change_members, 8 if len(world.names) > world.size else 0),
        ]

    def strike(self) -> None:
        if not self.is_over:
            self._dice.weighted(self._kinds)()
            self._world.ledger.sighted("fault")
            self._world.clock.after(
                int(self._gap_us * (0.2 + 1.6 * self._dice.fraction())), self.strike
            )

    def watch(self) -> None:
        """A root that is lost while a member of its in-sync set is in a SYNC is worth its while."""
        root = self._world.root()
        if root is None or self.is_over:
            return
        for name in root.election.record.in_sync:
            server = self._world.servers.get(name)
            if server is not None and server.backup.is_syncing and self._dice.chance(0.1):
                self._world.crash(root.name)
                return

    def end(self) -> None:
        """No more faults; everything that can be healed is."""
        world = self._world
        self.is_over = True
        world.network.rates = {}
        world.network.delay_us_max = 5_000
        world.network.heal()
        for name in world.names:
            world.latency_us[name] = 2_000
            if name in world.servers:
                for other in world.names:
                    if other != name:
                        world.network.redial(name, other)

    def _name(self) -> str:
        return self._dice.choose(self._world.names)

    def _crash_one(self) -> None:
        self._world.crash(self._name())

    def _crash_root(self) -> None:
        for name, server in list(self._world.servers.items()):
            if server.primary is not None:
                if not server.election.has_begun():
                    self._world.ledger.sighted("root crashed before its first record")
                self._world.crash(name)

    def _restart(self) -> None:
        for name in self._world.names:
            if name not in self._world.servers and self._dice.chance(0.7):
                self._world.boot(name)

    def _isolate(self) -> None:
        name = self._name()
        for other in self._world.names:
            self._world.network.cuts |= {(name, other), (other, name)}

    def _cut_one_way(self) -> None:
        one, other = self._name(), self._name()
        if one != other:
            self._world.network.cuts.add((one, other))
            self._world.ledger.sighted("cut in one direction")

    def _cut_in_halves(self) -> None:
        names = self._world.names
        half = {name for name in names if self._dice.chance(0.5)}
        self._world.network.cuts |= {
            (one, other) for one in names for other in names if (one in half) != (other in half)
        }

    def _heal_cuts(self) -> None:
        self._world.network.heal()

    def _pause(self) -> None:
        until = self._world.clock.microseconds + self._dice.between(50_000, 1_000_000)
        name = self._name()
        self._world.paused_until[name] = max(self._world.paused_until.get(name, 0), until)
        self._world.ledger.sighted("pause")

    def _power(self) -> None:
        if self._dice.chance(0.4):
            self._world.ledger.sighted("power loss of all servers")
            for name in self._world.names:
                self._world.crash(name)
            for name in self._world.names:
                if self._dice.chance(0.7):
                    self._world.boot(name)

    def _slow_disk(self) -> None:
        self._world.latency_us[self._name()] = self._dice.choose((500, 5_000, 150_000))

    def _hang_disk(self) -> None:
        root = self._world.root()
        name = root.name if root is not None and self._dice.chance(0.5) else self._name()
        until = self._world.clock.microseconds + self._dice.between(300_000, 1_500_000)
        self._world.hangs_until[name] = until
        self._world.ledger.sighted("disk hangs")

    def _break_connection(self) -> None:
        world = self._world
        open_ones = [c for c in world.network.dialled.values() if c.is_open[c.dialler]]
        root = world.root()
        if root is not None and self._dice.chance(0.7):
            open_ones = [c for c in open_ones if c.listener == root.name]
        if open_ones:
            connection = self._dice.choose(open_ones)
            end = self._dice.choose((connection.dialler, connection.listener))
            connection.close(end)
            # The links of that end tell it at once.
            world.network.tell_down(connection, end)
            world.ledger.sighted("connection broken")

    def _slow_line(self) -> None:
        root = self._world.root()
        one = root.name if root is not None and self._dice.chance(0.8) else self._name()
        other = self._name()
        rates = self._world.network.rates
        rates[one, other] = SLOW if rates.get((one, other), FAST) == FAST else FAST

    def _hand_over(self) -> None:
        root = self._world.root()
        if root is not None:
            root.election.hand_over(self._name(), root.now())

    def _lose_disk(self) -> None:
        """Only while all members are in sync: losing most copies of a message is not survived."""
        root = self._world.root()
        if root is None or self.to_replace or root.election.committed_record is None:
            return
        record = root.election.record
        if record != root.election.committed_record or len(record.in_sync) < len(record.members):
            return
        if not all(m.store_id and self._world.counts(record, m.name) for m in record.members):
            return
        name = self._dice.choose(record.names())
        self.to_replace = name
        self._world.lose_disk(name)

    def operate(self) -> None:
        """The operator replaces a server that lost its disk as soon as there is a root."""
        root = self._world.root()
        if not self.to_replace or root is None:
            return
        record = root.election.committed_record
        name = self.to_replace
        if record is not None and (record.find(name) is None or self._world.counts(record, name)):
            self.to_replace = ""
            self._world.ledger.sighted("disk replaced")
        elif root.name != name:
            root.election.replace_member(name, root.now())

    def _change_members(self) -> None:
        root = self._world.root()
        if root is None or self.to_replace:
            return
        election = root.election
        record = election.record
        out = [name for name in self._world.names if record.find(name) is None]
        if out and self._dice.chance(0.6):
            name = self._dice.choose(out)
            if not election.add_member(name, address_of(name), root.now()):
                self._world.ledger.sighted("server to be added")
        elif len(record.members) > MEMBERS_MIN:
            name = self._dice.choose(record.names())
            if not election.remove_member(name, root.now()):
                self._world.ledger.sighted("server removed")
