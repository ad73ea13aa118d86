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


class Caller(ABC):
    """What the programs of both protocols have in common. Held by the run."""

    def __init__(
        self, name: str, address: Address, clock: VirtualClock, dice: Dice, network: Network,
        ledger: Ledger,
    ) -> None:  # fmt: skip
        self.name = name
        self.address = address
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

    @property
    def is_done(self) -> bool:
        """Whether it has sent everything that it had to send, and knows what became of it."""
        return True

    @property
    @abstractmethod
    def is_gone(self) -> bool:
        """Whether it has disconnected for good."""

    def connect(self) -> None:
        attempt = self.policy.next_attempt()
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
