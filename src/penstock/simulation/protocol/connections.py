"""Connections between simulated servers: ordered, until they break. Each server dials every other.

A cut holds back what travels in one direction; the connection lasts and goes on when the cut heals,
or breaks when that takes too long. Each end learns of a break by itself, so a late close may come
after the next connection is open.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final

from penstock.ha import messages
from penstock.ha.backup_line import BackupLine
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice

# Heartbeats of links notice a silent peer after this time.
SILENCE_US: Final = 400_000
REDIAL_US_MAX: Final = 60_000
# Octets per millisecond of an ordinary line, and of one that is too slow for what is sent.
FAST: Final = 100_000
SLOW: Final = 1


class ServerEnd(ABC):
    """A server as its connections see it."""

    name: str

    @abstractmethod
    def link_up(self, connection: "PeerConnection") -> None:
        """A connection that it dialled is open."""

    @abstractmethod
    def link_down(self, connection: "PeerConnection") -> None:
        """An end of a connection learns that it broke."""

    @abstractmethod
    def message(self, connection: "PeerConnection", sender: str, kind: int, octets: bytes) -> None:
        """One arrived."""


class PeerConnection:
    """Dialled by one server; both send over it."""

    def __init__(self, network: "PeerConnections", dialler: str, listener: str) -> None:
        self._network: PeerConnections = network
        self.dialler: str = dialler
        self.listener: str = listener
        # The dialler has joined over it.
        self.is_joined: bool = False
        self.is_open: dict[str, bool] = {dialler: True, listener: True}
        self._free_at: dict[str, int] = {dialler: 0, listener: 0}
        self._arrival: dict[str, int] = {dialler: 0, listener: 0}
        self.held: dict[str, list[tuple[int, bytes]]] = {dialler: [], listener: []}

    def other(self, name: str) -> str:
        return self.listener if name == self.dialler else self.dialler

    def send(self, sender: str, kind: int, octets: bytes) -> None:
        if not self.is_open[sender]:
            return
        network = self._network
        now = network.clock.microseconds
        rate = self._rate(sender)
        start = max(self._free_at[sender], now)
        self._free_at[sender] = start + len(octets) * 1000 // rate
        arrival = max(self._arrival[sender], self._free_at[sender] + network.delay())
        self._arrival[sender] = arrival
        network.clock.after(arrival - now, partial(self.arrive, sender, kind, octets))

    def _rate(self, sender: str) -> int:
        """A slow line is slow where operations travel, to the server that dialled."""
        if sender == self.dialler:
            return FAST
        return self._network.rates.get((self.listener, self.dialler), FAST)

    def unsent_bytes(self, sender: str) -> int:
        rate = self._rate(sender)
        late = self._free_at[sender] - self._network.clock.microseconds
        return max(0, late * rate // 1000)

    def arrive(self, sender: str, kind: int, octets: bytes) -> None:
        name = self.other(sender)
        if not self.is_open[name]:
            if kind in (messages.SYNC, messages.RESUME):
                self._network.keep_stale(self, kind, octets)
            return
        held = self.held[name]
        if held or self._network.is_cut(sender, name):
            if not held:
                self._network.clock.after(self._network.silence_us, partial(self.time_out, name))
            held.append((kind, octets))
            return
        self._network.deliver(self, name, sender, kind, octets)

    def go_on(self) -> None:
        """A cut has healed."""
        for name in (self.dialler, self.listener):
            held, self.held[name] = self.held[name], []
            for kind, octets in held:
                self.arrive(self.other(name), kind, octets)

    def time_out(self, name: str) -> None:
        if self.held[name]:
            self.close(name)

    def close(self, name: str) -> None:
        """One end closes it; the other learns of that behind what is on its way, or at once, or by
        the silence.
        """
        if not self.is_open[name]:
            return
        network = self._network
        self.is_open[name] = False
        other = self.other(name)
        in_order = max(0, self._arrival[name] - network.clock.microseconds)
        delay = in_order if network.dice.chance(0.5) else network.delay()
        if network.is_cut(name, other):
            delay = network.silence_us
        network.clock.after(delay, partial(self.closed_by_peer, other))
        if name == self.dialler:
            network.redial(self.dialler, self.listener)

    def closed_by_peer(self, name: str) -> None:
        if self.is_open[name]:
            self.is_open[name] = False
            self._network.tell_down(self, name)
            if name == self.dialler:
                self._network.redial(self.dialler, self.listener)


class EndLine(BackupLine):
    """One end of a connection, as replication sees it."""

    def __init__(self, connection: PeerConnection, name: str, ended: Callable[[str], None]) -> None:
        self.connection: PeerConnection = connection
        self._name: str = name
        self._ended: Callable[[str], None] = ended

    def send(self, kind: int, pieces: list[bytes]) -> None:
        self.connection.send(self._name, kind, b"".join(pieces))

    def unsent_bytes(self) -> int:
        return self.connection.unsent_bytes(self._name)

    def end(self, reason: str) -> None:
        self._ended(reason)
        self.connection.close(self._name)


class PeerConnections:
    """All of them."""

    def __init__(
        self,
        clock: VirtualClock,
        dice: Dice,
        delay_us_max: int,
        when_awake: Callable[[str, Callable[[], None]], None],
    ) -> None:
        """`when_awake` runs a function for a server once that is not paused."""
        self.clock: VirtualClock = clock
        self.dice: Dice = dice
        self.delay_us_max: int = delay_us_max
        self.silence_us: int = SILENCE_US
        self.ends: dict[str, ServerEnd] = {}
        self.cuts: set[tuple[str, str]] = set()
        self.rates: dict[tuple[str, str], int] = {}
        # The newest that was dialled, by dialler and listener.
        self.dialled: dict[tuple[str, str], PeerConnection] = {}
        self._dialling: set[tuple[str, str]] = set()
        self._stale: dict[
            tuple[str, str], list[tuple[PeerConnection, list[tuple[int, bytes]]]]
        ] = {}
        self.when_awake: Callable[[str, Callable[[], None]], None] = when_awake

    def delay(self) -> int:
        return self.dice.between(100, self.delay_us_max)

    def is_cut(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) in self.cuts

    def heal(self) -> None:
        self.cuts = set()
        for connection in list(self.dialled.values()):
            connection.go_on()

    def booted(self, end: ServerEnd) -> None:
        """A server is there; it and all others dial."""
        self.ends[end.name] = end
        for other in list(self.ends):
            if other != end.name:
                self.redial(end.name, other)
                self.redial(other, end.name)

    def crashed(self, name: str) -> None:
        del self.ends[name]
        for connection in list(self.dialled.values()):
            if name in (connection.dialler, connection.listener):
                connection.close(name)

    def open_to(self, dialler: str, listener: str) -> PeerConnection | None:
        connection = self.dialled.get((dialler, listener))
        if connection is None or not connection.is_open[dialler]:
            return None
        return connection

    def redial(self, dialler: str, listener: str) -> None:
        if (dialler, listener) not in self._dialling:
            self._dialling.add((dialler, listener))
            delay = self.dice.between(1000, REDIAL_US_MAX)
            self.clock.after(delay, partial(self._dial, dialler, listener))

    def _dial(self, dialler: str, listener: str) -> None:
        self._dialling.discard((dialler, listener))
        if dialler not in self.ends or self.open_to(dialler, listener) is not None:
            return
        cut = self.is_cut(dialler, listener) or self.is_cut(listener, dialler)
        if listener not in self.ends or cut:
            if listener in self.ends:
                self.redial(dialler, listener)
            return
        old = self.dialled.get((dialler, listener))
        if old is not None and old.is_open[listener] and self.dice.chance(0.5):
            # The listener closes the older one of two; otherwise it learns of it later.
            old.is_open[listener] = False
            self.tell_down(old, listener)
        connection = PeerConnection(self, dialler, listener)
        self.dialled[dialler, listener] = connection
        self.when_awake(dialler, partial(self._up, connection, dialler))

    def keep_stale(self, connection: PeerConnection, kind: int, octets: bytes) -> None:
        """The answer to a JOIN came after its line was lost."""
        between = (connection.dialler, connection.listener)
        answers = self._stale.setdefault(between, [])
        if not answers or answers[-1][0] is not connection:
            answers.append((connection, []))
        answers[-1][1].append((kind, octets))

    def stale_answers(self, connection: PeerConnection) -> list[list[tuple[int, bytes]]]:
        """Answers to earlier JOINs that arrive now; none most of the time."""
        answers = self._stale.get((connection.dialler, connection.listener), [])
        if not answers or self.dice.chance(0.5):
            return []
        return [self.dice.choose(answers)[1]]

    def deliver(
        self, connection: PeerConnection, name: str, sender: str, kind: int, octets: bytes
    ) -> None:
        self.when_awake(name, partial(self._arrived, connection, name, sender, kind, octets))

    def tell_down(self, connection: PeerConnection, name: str) -> None:
        self.when_awake(name, partial(self._down, connection, name))

    def _up(self, connection: PeerConnection, name: str) -> None:
        end = self.ends.get(name)
        if end is not None and connection.is_open[name]:
            end.link_up(connection)

    def _down(self, connection: PeerConnection, name: str) -> None:
        end = self.ends.get(name)
        if end is not None:
            end.link_down(connection)

    def _arrived(
        self, connection: PeerConnection, name: str, sender: str, kind: int, octets: bytes
    ) -> None:
        end = self.ends.get(name)
        if end is not None and connection.is_open[name]:
            end.message(connection, sender, kind, octets)
