"""One connection as its sessions and links see it."""

from penstock.broker.errors import AccessRefused, Refusal
from penstock.broker.events import EventKind
from penstock.dialects.amqp10.transactions.transaction import Transactions
from penstock.dialects.container import Container
from penstock.dialects.input_pause import InputPause
from penstock.dialects.noting import Noting
from penstock.dialects.principal import Principal
from penstock.dialects.turn import ConnectionTurn
from penstock.wire.amqp10.connection import Connection as WireConnection
from penstock.wire.outgoing import Outgoing


class ConnectionContext:
    """Held by the connection, which alone changes it, and by all of its links."""

    def __init__(
        self, container: Container, wire: WireConnection, number: int, node_name: str, now: int
    ) -> None:
        self.container: Container = container
        self.wire: WireConnection = wire
        self.outgoing: Outgoing = wire.outgoing
        self.number: int = number
        self.node_name: str = node_name
        # The time of the event that is being handled.
        self.now: int = now
        # Of the client's open.
        self.container_id: str = ""
        self.principal: Principal | None = None
        self.transactions: Transactions = Transactions(container.state.timers)
        self.input_pause: InputPause = InputPause(wire.outgoing.transport)
        # Where the cost of this connection's work is charged.
        self.turn: ConnectionTurn = ConnectionTurn(container.turns, number, wire, self.input_pause)
        # See `Amqp10Settings`.
        self.creates_queues: bool = True
        # None when events are not recorded.
        self.noting: Noting | None = None

    def user(self) -> Principal:
        """The authenticated user, which is known once the connection is open."""
        principal = self.principal
        assert principal is not None, "the wire begins no session before the open is answered"
        return principal

    def refused(self, refusal: Refusal) -> None:
        """One message or request was refused, and its link goes on."""
        if isinstance(refusal, AccessRefused):
            self.denied(refusal.text)

    def denied(self, text: str) -> None:
        if self.noting is not None:
            self.noting.warn(EventKind.ACCESS_DENIED, text, {})

    def hold_for_definitions(self) -> None:
        """The last answer may depend on a definition: it is sent only when the definition is
        durable, whoever made it.
        """
        durability = self.container.durability
        count = self.container.state.definitions.change_count
        if count != durability.definition_count or durability.definitions > durability.durable:
            self.container.hold_until_durable(self.outgoing)
