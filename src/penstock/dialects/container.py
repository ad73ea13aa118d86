"""What all connections of one node share, whatever they speak.

Seed 002: "The AmqpConnection references an IContainer, which is abstraction for the application.
In this case, a message broker/queue."
"""

from penstock.broker.access.permissions import Access
from penstock.broker.durability import Durability
from penstock.broker.events import EventLog
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.state import BrokerState
from penstock.broker.vhost import VirtualHost
from penstock.dialects.confirming import Confirming
from penstock.dialects.login_checker import LoginChecker
from penstock.dialects.principal import Principal
from penstock.dialects.translator import Translator
from penstock.dialects.turn import Turns
from penstock.wire.outgoing import Outgoing
from penstock.world.entropy import Entropy


class Container:
    """Held by the node and by every connection. What only one dialect shares is in its `dialect.py`,
    which has a container.
    """

    def __init__(self, state: BrokerState, entropy: Entropy, login_checker: LoginChecker) -> None:
        self.state: BrokerState = state
        self.entropy: Entropy = entropy
        self.login_checker: LoginChecker = login_checker
        # Connections with output, and publishers to answer, at the end of this tick.
        self.flush_list: list[Outgoing] = []
        self.confirm_list: list[Confirming] = []
        self.durability: Durability = Durability()
        # Connections whose output, from this tick on, waits until what the tick wrote is safe.
        self.gate_list: list[Outgoing] = []
        self.interceptor: PublishInterceptor | None = None
        # Why publishers are blocked now; empty when they are not.
        self.alarm: str = ""
        self.principals: dict[tuple[str, str], Principal] = {}
        self.connection_counts: dict[str, int] = {}
        # The default user's password hash, once an anonymous client was refused because of it.
        self.anonymous_refused_hash: str = ""
        # Since the process started.
        self.channels_opened: int = 0
        self.events: EventLog = EventLog()
        self.translator: Translator = Translator()
        # What this tick has spent on costly things, and who waits for the next one.
        self.turns: Turns = Turns()
        self._holder_count: int = 0

    def new_holder(self) -> int:
        """A number for a channel or a link, under which queues note what is out with it. Numbers of
        all dialects are of one kind, and none is used again.
        """
        self._holder_count += 1
        return self._holder_count

    def gate(self, outgoing: Outgoing) -> None:
        """Say nothing more to this client before what it asked for is safe on disk."""
        self.gate_list.append(outgoing)

    def principal(self, user: str, vhost: VirtualHost, access: Access) -> Principal:
        key = (user, vhost.name)
        known = self.principals.get(key)
        if known is None or known.vhost is not vhost or known.access is not access:
            known = Principal(user, vhost, access)
            self.principals[key] = known
        return known
