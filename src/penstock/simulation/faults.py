"""What goes wrong and when: drawn from the seed, rarer than what recovers from it."""

from collections.abc import Callable
from typing import Final

from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.history import History
from penstock.simulation.host import Host
from penstock.simulation.network import Line, Network
from penstock.simulation.scenarios import Scenario

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
KINDS: Final = (RESET, CUT, CUT_TO_NODE, CUT_TO_CLIENT, STALL, REFUSE, ALARM)


class Faults:
    """Held by the stage."""

    def __init__(
        self,
        scenario: Scenario,
        clock: VirtualClock,
        dice: Dice,
        history: History,
        network: Network,
        hosts: list[Host],
    ) -> None:
        self._clock = clock
        self._dice = dice
        self._history = history
        self._network = network
        self._hosts = hosts
        self._interval_us = scenario.fault_interval_ms * 1000
        self._weights = (
            (RESET, 5),
            (CUT, 2),
            (CUT_TO_NODE, 1),
            (CUT_TO_CLIENT, 1),
            (STALL, 3),
            (REFUSE, 1),
            (ALARM, scenario.alarm_weight),
        )
        self._is_over = False
        self._next()

    def heal(self) -> None:
        """Nothing new goes wrong. What is cut stays cut until its ends notice."""
        self._is_over = True
        self._history.add("healed")
        for host in self._hosts:
            host.set_alarm("")

    def _next(self) -> None:
        self._clock.after(self._dice.between(0, 2 * self._interval_us), self._strike)

    def _strike(self) -> None:
        if self._is_over:
            return
        self._next()
        kind = self._dice.weighted(self._weights)
        if kind == ALARM:
            self._alarm()
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
        """One loses its line and cannot come back at once."""
        length = self._dice.between(0, REFUSE_US_MAX)
        self._network.refuses_until = self._clock.microseconds + length
        line.reset()

    def _alarm(self) -> None:
        host = self._dice.choose(self._hosts)
        if host.node.container.alarm:
            return
        self._history.sighted(ALARM)
        host.set_alarm("low on memory")
        length = self._dice.between(ALARM_US_MIN, ALARM_US_MAX)
        self._clock.after(length, lambda: host.set_alarm(""))
