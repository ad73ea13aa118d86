"""The faults of a cluster: of lines, machines, disks and the network between machines, and what
operators do meanwhile.

Each fault has a number and draws from dice of its own, so that a run can be repeated without some of
them.
"""

from collections.abc import Callable
from typing import Final

from penstock.cluster.election import Election
from penstock.simulation import faults
from penstock.simulation.clock import VirtualClock
from penstock.simulation.cluster_checks import counts
from penstock.simulation.cluster_host import ClusterHost
from penstock.simulation.dice import Dice
from penstock.simulation.history import History
from penstock.simulation.network import Line, Network
from penstock.simulation.plans import Scenario

SEVERAL: Final = "several machines lose power"
ALL: Final = "all machines lose power"
ROOT_DOWN: Final = "the root goes down"
IN_SYNC: Final = "a server loses power in a SYNC"
PROPOSING: Final = "a root loses power with a proposed record"
DIVIDE: Final = "the network is divided"
DIVIDE_ONE_WAY: Final = "the network is divided in one direction"
PAUSE: Final = "a process is paused"
PAUSE_ROOT: Final = "the root is paused"
HANG: Final = "a disk hangs"
LOST_DISK: Final = "a disk is lost"
HAND_OVER: Final = "an operator hands over"
ROOT_ROLE: Final = "an operator disables a root role"
REPLACE: Final = "an operator replaces a server"
ADD: Final = "an operator adds a server"
REMOVE: Final = "an operator removes a server"

WEIGHTS: Final = (
    (faults.RESET, 3),
    (faults.CUT, 2),
    (faults.CUT_TO_NODE, 1),
    (faults.CUT_TO_CLIENT, 1),
    (faults.STALL, 2),
    (faults.KILL, 3),
    (faults.POWER, 4),
    (faults.FAILED_FLUSH, 1),
    (ROOT_DOWN, 5),
    (IN_SYNC, 4),
    (PROPOSING, 4),
    (SEVERAL, 2),
    (ALL, 2),
    (DIVIDE, 5),
    (DIVIDE_ONE_WAY, 3),
    (PAUSE, 2),
    (PAUSE_ROOT, 3),
    (HANG, 3),
    (LOST_DISK, 3),
    (HAND_OVER, 4),
    (ROOT_ROLE, 3),
)
# With servers to spare.
MEMBER_WEIGHTS: Final = (*WEIGHTS, (ADD, 16), (REMOVE, 16))
MEMBERS_MIN: Final = 3

STALL_US_MAX: Final = 2_500_000
# From less than a heartbeat to more than an election.
DIVIDED_US_MAX: Final = 4_000_000
PAUSE_US_MAX: Final = 3_000_000
HANG_US_MAX: Final = 2_500_000
# A client may be on either side of a division, or see both.
CLIENT_CHANCE: Final = 0.3
OPERATOR_US: Final = 250_000
# How long a root role stays disabled.
DISABLED_US_MAX: Final = 3_000_000


class ClusterFaults:
    """Held by the run."""

    def __init__(
        self,
        scenario: Scenario,
        clock: VirtualClock,
        dice: Dice,
        history: History,
        network: Network,
        hosts: list[ClusterHost],
        clients: list[str],
        skipped: frozenset[int],
    ) -> None:
        self._weights = weights_of(scenario)
        self._interval_us = scenario.fault_interval_ms * 1000
        self._clock = clock
        self._dice = dice
        self._history = history
        self._network = network
        self._hosts = hosts
        self._clients = clients
        self._skipped = skipped
        self.count = 0
        self._is_over = False
        # Servers whose new disk is not in the in-sync set yet.
        self.lost: list[ClusterHost] = []
        # A server whose root role is disabled, and when an operator enables it.
        self.disabled = ""
        self._disabled_until = 0
        # A server that is to become a member.
        self._adding = ""
        self._next()
        clock.after(OPERATOR_US, self._operate)

    def end(self) -> None:
        self._is_over = True
        self._history.add("healed")
        self._network.unite()
        self._disabled_until = 0
        self._adding = ""
        for host in self._hosts:
            host.calm_down()
            if host.is_up and host.node.container.alarm:
                host.set_alarm("")

    def _next(self) -> None:
        self._clock.after(self._dice.between(0, 2 * self._interval_us), self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        self._next()
        self.count += 1
        kind = self._dice.weighted(self._weights)
        if self.count in self._skipped:
            return
        dice = self._dice.fork(f"fault{self.count}")
        done = self._break(kind, dice)
        if done:
            self._history.add(f"fault {self.count}: {kind}: {done}")
            self._history.sighted(kind)

    def _break(self, kind: str, dice: Dice) -> str:
        """What it hit; empty for nothing."""
        if kind in faults.LINE_KINDS:
            return self._break_line(kind, dice)
        if kind in {DIVIDE, DIVIDE_ONE_WAY}:
            return self._divide(kind == DIVIDE_ONE_WAY, dice)
        if kind in {HAND_OVER, ROOT_ROLE}:
            return self._command(kind, dice)
        if kind in {ADD, REMOVE}:
            return self._change_members(kind, dice)
        if kind in {ALL, SEVERAL}:
            hosts = [host for host in self._hosts if kind == ALL or dice.chance(0.5)]
            for host in hosts:
                host.lose_power()
            return " ".join([host.name for host in hosts])
        host = dice.choose(self._hosts)
        if kind in {ROOT_DOWN, PAUSE_ROOT}:
            roots = [host for host in self._hosts if host.may_serve()]
            if not roots:
                return ""
            host = roots[0]
        return host.name if host.is_up and self._break_host(kind, host, dice) else ""

    def _break_host(self, kind: str, host: ClusterHost, dice: Dice) -> bool:
        if kind == LOST_DISK:
            # Of the servers that have everything, the only one with an enabled root role might be
            # lost: then an operator has to enable or to force a root, which is not played here.
            if self.lost or self.disabled:
                return False
            self.lost.append(host)
            host.lose_disk()
            return True
        crash = dice.weighted([(host.lose_power, 2), (host.lose_power_soon, 3), (host.kill, 2)])
        breaks: dict[str, Callable[[], None]] = {
            faults.ALARM: lambda: self._alarm(host, dice),
            faults.FULL_DISK: lambda: self._fill(host, dice),
            faults.KILL: host.kill,
            faults.POWER: host.lose_power_soon,
            faults.FAILED_FLUSH: host.disk.fail_next_flush,
            ROOT_DOWN: crash,
            IN_SYNC: host.lose_power_in_sync,
            PROPOSING: host.lose_power_proposing,
            PAUSE: lambda: host.pause(dice.between(1, PAUSE_US_MAX)),
            PAUSE_ROOT: lambda: pause_root(host, dice.between(1, PAUSE_US_MAX)),
            HANG: lambda: host.disk.hang(dice.between(1, HANG_US_MAX)),
        }
        breaks[kind]()
        return True

    def _alarm(self, host: ClusterHost, dice: Dice) -> None:
        host.when_running(host.life, lambda: host.set_alarm("low on memory"))
        length = dice.between(faults.ALARM_US_MIN, faults.ALARM_US_MAX)
        host.later(length, lambda: host.set_alarm(""))

    def _fill(self, host: ClusterHost, dice: Dice) -> None:
        host.disk.fill_up(dice.between(0, faults.ROOM_BYTES_MAX))
        self._clock.after(dice.between(0, faults.FULL_US_MAX), host.disk.heal)

    def _break_line(self, kind: str, dice: Dice) -> str:
        lines = self._network.lines()
        if not lines:
            return ""
        line: Line = dice.choose(lines)
        breaks: dict[str, Callable[[], None]] = {
            faults.RESET: line.reset,
            faults.CUT: lambda: line.cut(True, True),
            faults.CUT_TO_NODE: lambda: line.cut(True, False),
            faults.CUT_TO_CLIENT: lambda: line.cut(False, True),
            faults.STALL: lambda: line.stall(dice.between(0, STALL_US_MAX)),
        }
        breaks[kind]()
        return line.name

    def _divide(self, is_one_way: bool, dice: Dice) -> str:
        names = [host.name for host in self._hosts]
        here = [name for name in names if dice.chance(0.5)] or [dice.choose(names)]
        roots = [host.name for host in self._hosts if host.may_serve()]
        if roots and dice.chance(0.4):
            here = [roots[0]]
        if len(here) == len(names):
            here.pop()
        there = [name for name in names if name not in here]
        for client in self._clients:
            if dice.chance(CLIENT_CHANCE):
                (here if dice.chance(0.5) else there).append(client)
        until = self._clock.microseconds + dice.between(1, DIVIDED_US_MAX)
        for one in here:
            for other in there:
                self._network.divide(one, other, until)
                if not is_one_way:
                    self._network.divide(other, one, until)
        length = (until - self._clock.microseconds) // 1000
        return f"{' '.join(here)} | {' '.join(there)} for {length} ms"

    # Operators.

    def _root(self) -> ClusterHost | None:
        roots = [host for host in self._hosts if host.may_serve()]
        return roots[0] if len(roots) == 1 else None

    def _command(self, kind: str, dice: Dice) -> str:
        root = self._root()
        others = [host.name for host in self._hosts if host is not root]
        if root is None or (kind == ROOT_ROLE and (self.disabled or self.lost)):
            return ""
        name = dice.choose(others)
        if kind == HAND_OVER:
            reason = self._ask(root, lambda election: election.hand_over(name, root.now()))
        else:
            name = dice.choose([name, root.name])
            reason = self._ask(root, lambda election: election.disable_root(name, root.now()))
            if not reason:
                self.disabled = name
                wait = dice.between(0, DISABLED_US_MAX)
                self._disabled_until = self._clock.microseconds + wait
        return "" if reason else name

    def _change_members(self, kind: str, dice: Dice) -> str:
        """Not while a server has lost its disk or must not be the root: too few would be left."""
        root = self._root()
        if root is None or self.lost or self.disabled:
            return ""
        names = root.record.names()
        committed = root.election.committed_record
        if kind == ADD and committed is not None:
            # The disk of a server may be needed until its removal is committed: the command has not
            # ended before.
            names += committed.names()
        found = [host.name for host in self._hosts if (host.name in names) == (kind == REMOVE)]
        if not found or (kind == REMOVE and len(names) <= MEMBERS_MIN):
            return ""
        name = dice.choose(found)
        if kind == REMOVE:
            reason = self._ask(root, lambda it: it.remove_member(name, root.now()))
            return "" if reason else name
        role = root.election.root
        if self._adding or role is None or role.learner is not None:
            # One at a time: a server that is formatted again while it is added is a stranger.
            return ""
        for host in self._hosts:
            if host.name == name:
                # The root learns of it when it is up again.
                host.format_again()
        self._adding = name
        return name

    def _add(self, root: ClusterHost, name: str) -> None:
        if any(host.name == name and host.is_up for host in self._hosts):
            address = address_of(name)
            if not self._ask(root, lambda it: it.add_member(name, address, root.now())):
                self._adding = ""

    def _ask(self, root: ClusterHost, command: Callable[[Election], str]) -> str:
        reason = command(root.election)
        root.schedule_flush()
        return reason

    def _operate(self) -> None:
        """What an operator repeats until it is done."""
        self._clock.after(OPERATOR_US, self._operate)
        root = self._root()
        record = None if root is None else root.election.committed_record
        if root is None or record is None:
            return
        name = self.disabled
        # While a record is proposed, that may be the one that disables it.
        is_settled = root.election.root is not None and root.election.root.is_settled()
        if name and is_settled and self._clock.microseconds >= self._disabled_until:
            member = record.find(name)
            if member is not None and member.may_be_root:
                self.disabled = ""
            else:
                self._ask(root, lambda election: election.enable_root(name, root.now()))
        if self._adding:
            self._add(root, self._adding)
        for host in list(self.lost):
            if record.find(host.name) is None:
                # It is not a member any more, or never was one.
                self.lost.remove(host)
            if host.is_dead or host not in self.lost:
                continue
            if counts(root, host):
                if host.name in record.in_sync:
                    self.lost.remove(host)
                continue
            reason = root.election.replace_member(host.name, root.now())
            root.schedule_flush()
            if not reason:
                self._history.add(f"an operator replaces {host.name}")
                self._history.sighted(REPLACE)


def weights_of(scenario: Scenario) -> tuple[tuple[str, int], ...]:
    weights: tuple[tuple[str, int], ...] = WEIGHTS
    if scenario.spare_count:
        weights = MEMBER_WEIGHTS
    if scenario.alarm_weight:
        weights += ((faults.ALARM, scenario.alarm_weight),)
    if scenario.storage is not None and scenario.storage.full_disk_weight:
        weights += ((faults.FULL_DISK, scenario.storage.full_disk_weight),)
    return weights


def address_of(name: str) -> str:
    return f"{name}:5672"


def pause_root(host: ClusterHost, microseconds: int) -> None:
    """Between two ticks, or in the middle of one."""
    if microseconds % 2:
        host.pause(microseconds)
    else:
        host.pause_in_tick(microseconds)
