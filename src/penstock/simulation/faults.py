"""Which faults occur and when: drawn from the seed, less often than recovery takes."""

from collections.abc import Callable
from typing import Final

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.durable_host import DurableHost
from penstock.simulation.history import History
from penstock.simulation.host import Host
from penstock.simulation.network import Line, Network
from penstock.simulation.plans import Scenario

STALL_US_MAX: Final = 2_500_000
REFUSE_US_MAX: Final = 800_000
ALARM_US_MIN: Final = 50_000
ALARM_US_MAX: Final = 2_000_000

RESET: Final = "a line is reset"
CUT: Final = "a line is cut"
CUT_TO_NODE: Final = "a line is cut towards the node"
CUT_TO_CLIENT: Final = "a line is cut towards the client"
STALL: Final = "a line stalls"
REFUSE: Final = "nobody gets through for a while"
ALARM: Final = "an alarm is raised"
LINE_KINDS: Final = (RESET, CUT, CUT_TO_NODE, CUT_TO_CLIENT, STALL, REFUSE)
KINDS: Final = (*LINE_KINDS, ALARM)
KILL: Final = "a process is killed"
POWER: Final = "the power goes"
STOP: Final = "a node is stopped"
FAILED_FLUSH: Final = "a flush fails"
FULL_DISK: Final = "a disk is full"
STORAGE_KINDS: Final = (KILL, POWER, STOP, FAILED_FLUSH, FULL_DISK)
# From no room at all to an alarm that is raised in time.
ROOM_BYTES_MAX: Final = 12_000
FULL_US_MAX: Final = 3_000_000


class Faults:
    """Held by the run."""

    def __init__(
        self,
        scenario: Scenario,
        clock: VirtualClock,
        dice: Dice,
        history: History,
        network: Network,
        hosts: list[Host],
        skipped: frozenset[int] = frozenset(),
    ) -> None:
        self._clock = clock
        self._dice = dice
        self._history = history
        self._network = network
        self._hosts = hosts
        self._interval_us = scenario.fault_interval_ms * 1000
        self._weights: tuple[tuple[str, int], ...] = (
            (RESET, 5),
            (CUT, 2),
            (CUT_TO_NODE, 1),
            (CUT_TO_CLIENT, 1),
            (STALL, 3),
            (REFUSE, 1),
            (ALARM, scenario.alarm_weight),
        )
        plan = scenario.storage
        if plan is not None:
            self._weights += (
                (KILL, plan.kill_weight),
                (POWER, plan.power_weight),
                (STOP, plan.stop_weight),
                (FAILED_FLUSH, plan.failed_flush_weight),
                (FULL_DISK, plan.full_disk_weight),
            )
        self._is_over = False
        # How many there were; those of these numbers do not happen.
        self.count = 0
        self._skipped = skipped
        self._next()

    def heal(self) -> None:
        """No new faults. A cut connection stays cut until its ends notice."""
        self._is_over = True
        self._history.add("healed")
        for host in self._hosts:
            if host.is_up:
                host.set_alarm("")
            if isinstance(host, DurableHost):
                host.is_calm = True
                host.disk.heal()

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
        if kind == ALARM:
            self._alarm()
            return
        if kind in STORAGE_KINDS:
            self._break_storage(kind)
            return
        lines = self._network.lines()
        if not lines:
            return
        line = self._dice.choose(lines)
        self._history.add(f"fault: {kind}: {line.name}")
        self._history.sighted(kind)
        self._break(kind, line)

    def _break(self, kind: str, line: Line) -> None:
        breaks: dict[str, Callable[[], None]] = {
            RESET: line.reset,
            CUT: lambda: line.cut(True, True),
            CUT_TO_NODE: lambda: line.cut(True, False),
            CUT_TO_CLIENT: lambda: line.cut(False, True),
            STALL: lambda: line.stall(self._dice.between(0, STALL_US_MAX)),
            REFUSE: lambda: self._refuse(line),
        }
        breaks[kind]()

    def _refuse(self, line: Line) -> None:
        """A program loses its connection and cannot reconnect at once."""
        length = self._dice.between(0, REFUSE_US_MAX)
        self._network.refuses_until = self._clock.microseconds + length
        line.reset()

    def _break_storage(self, kind: str) -> None:
        host = self._dice.choose(self._hosts)
        assert isinstance(host, DurableHost), "only a host with a disk has storage"
        if not host.is_up:
            return
        self._history.add(f"fault: {kind}: {host.name}")
        self._history.sighted(kind)
        if kind == KILL:
            host.kill()
        elif kind == POWER:
            self._dice.weighted(
                [
                    (host.lose_power, 3),
                    (host.lose_power_soon, 6),
                    (host.lose_power_copying, 1),
                ]
            )()
        elif kind == STOP:
            host.stop_cleanly()
        elif kind == FAILED_FLUSH:
            host.disk.fail_next_flush()
        else:
            host.disk.fill_up(self._dice.between(0, ROOM_BYTES_MAX))
            self._clock.after(self._dice.between(0, FULL_US_MAX), host.disk.heal)

    def _alarm(self) -> None:
        host = self._dice.choose(self._hosts)
        if not host.is_up or host.node.container.alarm:
            return
        self._history.sighted(ALARM)
        host.set_alarm("low on memory")
        length = self._dice.between(ALARM_US_MIN, ALARM_US_MAX)
        host.later(length, lambda: host.set_alarm(""))
