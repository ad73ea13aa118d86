"""Turns: no connection occupies the event loop for long, whatever it asks for.

Work that costs more than a look-up is charged in units of about a microsecond. When a tick has
spent its units, a connection that has spent its share of them keeps the rest of its input for its
next turn and is not read meanwhile. Others are still served. Publishing to a few queues is not
charged, because a read brings few enough of it.

Invariants
- a connection's turn is over exactly while it is listed in `Turns.waiting`, or is in the middle of
  being called from there;
- waiting connections get their turn in the order in which their last turns ended, at least one of
  them per tick.
"""

from typing import Final

from mypy_extensions import mypyc_attr

from penstock.broker.publishing.publish import RoutingMeter
from penstock.broker.publishing.target import Target
from penstock.dialects.input_pause import TURN, InputPause
from penstock.wire.pausable import PausableInput

# What a tick may spend on new input, and again on what was kept: together about ten milliseconds,
# on a machine that is half as fast twenty.
TURN_UNITS_MAX: Final = 5_000
# Messages of a commit that are prepared between two looks at the turn; far less than it costs.
COMMIT_STEP_COUNT: Final = 256
# A connection may spend a tenth of that however much others have spent: a connection with little
# work is not stopped because of one with much.
SHARES: Final = 10

# Octets of input that a tick takes. It writes them as one batch, in a cluster as one operation, which
# all servers must take; what has begun is completed, so this and one largest transaction must be less
# than `OPERATION_BYTES_MAX`. At the limit connections keep their input for the next tick.
TICK_OCTETS_MAX: Final = 64 * 1024 * 1024

# A body from here on counts when it is complete: most of it came with reads of earlier ticks.
LARGE_BODY_OCTETS: Final = 256 * 1024

# What things cost, measured on the compiled build. A change of the topology, with its record.
TOPOLOGY_UNITS: Final = 20
# Consume, cancel, get, qos: a lookup and an answer.
METHOD_UNITS: Final = 3
# One message that takes the long way through the exchanges.
ROUTE_UNITS: Final = 1
# This many of these are one unit: enqueued messages beyond the first few queues, bindings that were
# compared, messages that were acknowledged, purged or put back.
ENQUEUED_PER_UNIT: Final = 8
COMPARED_PER_UNIT: Final = 1
ACKNOWLEDGED_PER_UNIT: Final = 16
RETURNED_PER_UNIT: Final = 8
PURGED_PER_UNIT: Final = 8
# Each message that dies passes through an exchange.
REJECTED_UNITS: Final = 2
# Up to this many queues a publish is not charged.
FREE_QUEUES: Final = 8


def route_units(target: Target) -> int:
    """What it costs to find a message's queues, and to enqueue it there."""
    units = ROUTE_UNITS + target.compared // COMPARED_PER_UNIT
    return units + len(target.queues) // ENQUEUED_PER_UNIT


def plain_units(target: Target) -> int:
    """What it costs to enqueue a message whose queues are known."""
    count = len(target.queues)
    return count // ENQUEUED_PER_UNIT if count > FREE_QUEUES else 0


@mypyc_attr(allow_interpreted_subclasses=True)
class PendingWork:
    """A request of a connection that takes several turns. Held by its turn."""

    def prepare(self, now: int) -> bool:
        """Do a part of it that has no visible effect. True when only `finish` is left."""
        raise NotImplementedError

    def finish(self, now: int) -> None:
        """Do everything that has a visible effect, and answer. Raises what the wire answers."""
        raise NotImplementedError

    def roll_back(self) -> None:
        """The connection has ended before it could be finished."""
        raise NotImplementedError


class Turns:
    """Held by the container; the node begins and ends ticks."""

    def __init__(self) -> None:
        self.units_max: int = TURN_UNITS_MAX
        self.octets_max: int = TICK_OCTETS_MAX
        self.commit_step_count: int = COMMIT_STEP_COUNT
        self.spent: int = 0
        # Of the input that this tick has taken; not of what is kept of it.
        self.octets: int = 0
        # Counts up, for connections to know what they have spent in this one.
        self.tick: int = 0
        self.waiting: list[ConnectionTurn] = []

    def is_full(self) -> bool:
        return self.octets >= self.octets_max

    def limit(self, units_max: int, commit_step_count: int) -> None:
        self.units_max = units_max
        self.commit_step_count = commit_step_count


class ConnectionTurn(RoutingMeter):
    """Held by one connection."""

    def __init__(
        self, turns: Turns, number: int, heard: PausableInput, input_pause: InputPause
    ) -> None:
        self._turns: Turns = turns
        # Of the connection.
        self.number: int = number
        self._heard: PausableInput = heard
        self._input_pause: InputPause = input_pause
        self.is_over: bool = False
        self._tick: int = -1
        self._spent: int = 0
        # What servers of a cluster tell one another never waits for what clients say.
        self.is_exempt: bool = False
        # What must be done before more input is handled.
        self.work: PendingWork | None = None

    def routed(self, target: Target) -> None:
        self.charge(route_units(target))

    def charge(self, units: int) -> None:
        turns = self._turns
        if self._tick != turns.tick:
            self._tick = turns.tick
            self._spent = 0
        self._spent += units
        turns.spent += units
        if turns.spent >= turns.units_max and self._spent >= turns.units_max // SHARES:
            self.end()

    def receive(self, data: bytes, now: int) -> None:
        """Input goes to the wire, which keeps it if this tick has taken enough."""
        heard = self._heard
        if self._turns.is_full() and not self.is_exempt:
            self.end()
        before = heard.buffered() + len(data)
        heard.receive(data, now)
        self.took(before - heard.buffered())

    def took(self, octets: int) -> None:
        """So much was handled; the rest of the input waits if that is enough for a tick."""
        if self.is_exempt:
            return
        self._turns.octets += octets
        if self._turns.is_full():
            self.end()

    def end(self) -> None:
        """Input that was not handled yet waits for the next turn."""
        if not self.is_over:
            self.is_over = True
            self._heard.must_stop = True
            self._input_pause.pause(TURN)
            self._turns.waiting.append(self)

    def begin(self) -> None:
        """The next turn; the caller lets the connection go on and then calls `rest`."""
        self.is_over = False
        self._heard.must_stop = False

    def rest(self) -> None:
        """All kept input was handled, unless the turn ended before."""
        if not self.is_over:
            self._input_pause.resume(TURN)
