"""A client of a node: it connects, loses its connection, and connects again after a while."""

from abc import ABC, abstractmethod
from typing import Final

from penstock.client.reconnect import ReconnectPolicy
from penstock.client.uri import Address
from penstock.simulation.clock import VirtualClock
from penstock.simulation.dice import Dice
from penstock.simulation.endpoint import Endpoint
from penstock.simulation.entropy import SeededEntropy
from penstock.simulation.ledger import Ledger
from penstock.simulation.network import Network

# As in the client's skins.
TICK_US: Final = 500_000
# Short, so that a cut is noticed within a run: after two to three seconds.
HEARTBEAT_SECONDS: Final = 1
RECONNECT_MS_MAX: Final = 1_000
# How long a client takes to go where it was sent; servers may send it to and fro for a while.
SENT_US_MAX: Final = 100_000
# Why servers of a cluster close connections in order.
CLUSTER_ENDS: Final = (
    "another server is the root",
    "this server is not the root any more",
    "the cluster has elected no root in time",
)


class Caller(ABC):
    """What the programs of both protocols have in common. Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger,
    ) -> None:  # fmt: skip
        self.name = name
        self.address = address
        self._addresses = [address]
        self.clock = clock
        self.dice = dice
        self.ledger = ledger
        self.history = ledger.history
        self._network = network
        self.policy = ReconnectPolicy(
            [address], SeededEntropy(dice.fork("entropy")), delay_max=RECONNECT_MS_MAX
        )
        self.epoch = 0
        # Faults are over: finish the work and cause no more errors.
        self.is_calm = False
        self.is_leaving = False
        # Where the last server said that the root is.
        self._sent_to: Address | None = None

    def know(self, addresses: list[Address]) -> None:
        """The addresses of several servers, one of which serves clients."""
        self._addresses = addresses
        self.policy = ReconnectPolicy(
            addresses, SeededEntropy(self.dice.fork("entropy")), delay_max=RECONNECT_MS_MAX
        )

    def sent_to(self, text: str) -> None:
        """A server has closed the connection and perhaps said who serves clients."""
        host = text.rpartition("connect to ")[2].partition(":")[0]
        for address in self._addresses:
            if address.host == host:
                self.history.sighted("a client is sent to the root")
                self._sent_to = address

    @property
    def is_done(self) -> bool:
        """Whether it has sent everything that it had to send, and knows what became of it."""
        return True

    @property
    @abstractmethod
    def is_gone(self) -> bool:
        """Whether it has disconnected for good."""

    def connect(self) -> None:
        sent_to = self._sent_to
        if sent_to is not None:
            self._sent_to = None
            self.address = sent_to
            self.clock.after(self.dice.between(0, SENT_US_MAX), self._dial)
            return
        attempt = self.policy.next_attempt()
        self.address = attempt.address
        self.clock.after(attempt.delay_milliseconds * 1000, self._dial)

    def _dial(self) -> None:
        if not self.is_leaving:
            self._network.dial(self.address.host, self.name, self._answered)

    def _answered(self, endpoint: Endpoint | None) -> None:
        if endpoint is None or self.is_leaving:
            if endpoint is not None:
                endpoint.abort()
            self.policy.failed()
            self.connect()
            return
        self.epoch += 1
        self.got_through(endpoint)

    @abstractmethod
    def got_through(self, endpoint: Endpoint) -> None:
        """Use this connection from now on."""

    @abstractmethod
    def leave(self) -> None:
        """Close in order and stay away."""
