"""What all connections of one node share, whatever they speak.

Seed 002: "The AmqpConnection references an IContainer, which is abstraction for the application.
In this case, a message broker/queue."
"""

from mypy_extensions import mypyc_attr

from penstock.broker.access.permissions import Access
from penstock.broker.access.tokens import TokenAccess, TokenVerifier
from penstock.broker.events import EventLog
from penstock.broker.message import Publisher
from penstock.broker.parameters import CLUSTER_NAME
from penstock.broker.publishing.publish import PublishInterceptor
from penstock.broker.state import BrokerState
from penstock.broker.store.reclaim import UnsettledSource
from penstock.broker.vhost import VirtualHost
from penstock.dialects.admission import Admission
from penstock.dialects.confirm_times import ConfirmTimes
from penstock.dialects.login_checker import LoginChecker
from penstock.dialects.peers import PEER_CONNECTIONS_MAX, TOO_MANY_PEERS, Peers
from penstock.dialects.principal import Principal
from penstock.dialects.translator import Translator
from penstock.dialects.turn import Turns
from penstock.wire.outgoing import Outgoing
from penstock.world.entropy import Entropy


class Durability:
    """How far the journal was written, and how far it is durable. Confirms and replies wait for it.
    Held by the container, changed by the node alone, and read by whoever waits. Without a journal both
    positions stay zero and nobody waits.
    """

    def __init__(self) -> None:
        # The end of what the last tick wrote, and the end of what is durable.
        self.written: int = 0
        self.durable: int = 0
        # The end of the last tick that wrote definitions, and how many changes were written by
        # then.
        self.definitions: int = 0
        self.definition_count: int = 0
        # When the tick began that is being flushed, and how long publishers waited for their answers.
        self.tick_began: int = 0
        self.times: ConfirmTimes = ConfirmTimes()

    def begin_tick(self, began: int) -> None:
        """Called when a tick ends that began then."""
        self.tick_began = began
        # What nobody said the end of was written by now at the latest.
        self.times.written(began)


@mypyc_attr(allow_interpreted_subclasses=True)
class EndOfTickAnswer(Publisher):
    """An object that sends answers at the end of a tick: a channel in confirm mode, a link whose
    deliveries came unsettled, a drain. Listed in `Container.answer_list` while there is something
    to answer.
    """

    def flush(self) -> None:
        """Answer what can be answered; called once per tick, after the journal was written."""
        raise NotImplementedError

    def is_waiting(self) -> bool:
        """Whether more of the journal has to become durable before more can be answered."""
        raise NotImplementedError

    def became_durable(self) -> None:
        """More of the journal is durable than before."""
        raise NotImplementedError

    def abandoned(self) -> None:
        """This server will not know whether what it waits for is committed; it is not called again."""

    def outgoing_of(self) -> Outgoing | None:
        """The output of the connection that is answered; None when it is not a connection, or gone.
        An exception in `flush` is attributed to it.
        """
        return None


class Container:
    """Held by the node and by every connection. What only one dialect shares is in its `dialect.py`,
    which has a container.
    """

    def __init__(self, state: BrokerState, entropy: Entropy, login_checker: LoginChecker) -> None:
        self.state: BrokerState = state
        self.entropy: Entropy = entropy
        self.login_checker: LoginChecker = login_checker
        # None: tokens are not accepted, and a password is a password.
        self.token_verifier: TokenVerifier | None = None
        # Connections with output, and publishers to answer, at the end of this tick.
        self.flush_list: list[Outgoing] = []
        self.answer_list: list[EndOfTickAnswer] = []
        self.durability: Durability = Durability()
        # Connections whose output, from this tick on, waits until what the tick wrote is durable.
        self.held_list: list[Outgoing] = []
        self.interceptor: PublishInterceptor | None = None
        # Why publishers are blocked now; empty when they are not.
        self.alarm: str = ""
        self.principals: dict[tuple[str, str], Principal] = {}
        # Of servers of this cluster that have logged in.
        self.peer_count: int = 0
        # Connections by virtual host, connections and channels by user.
        self.connection_counts: dict[str, int] = {}
        self.user_connection_counts: dict[str, int] = {}
        self.user_channel_counts: dict[str, int] = {}
        # The default user's password hash, once an anonymous client was refused because of it.
        self.anonymous_refused_hash: str = ""
        # Since the process started.
        self.channels_opened: int = 0
        self.channels_ended: int = 0
        # Of the same time, on channels and links that have ended: messages that were received, those
        # of them that were to be confirmed, confirmed ones, and deliveries that nobody acknowledges.
        self.received_on_ended: int = 0
        self.received_confirm_on_ended: int = 0
        self.confirmed_on_ended: int = 0
        self.unowned_on_ended: int = 0
        self.received_bytes_on_ended: int = 0
        self.sent_bytes_on_ended: int = 0
        # Messages that reached no queue: returned to their publishers, or dropped.
        self.returned_total: int = 0
        self.dropped_total: int = 0
        # Asked for one by one: acknowledged later, at once, or not there.
        self.got_total: int = 0
        self.got_unowned_total: int = 0
        self.got_empty_total: int = 0
        self.events: EventLog = EventLog()
        self.translator: Translator = Translator()
        # What this tick has spent on costly work, and which connections wait for the next one.
        self.turns: Turns = Turns()
        self._holder_count: int = 0
        # Which store it is whose queues others may have replicas of, in hexadecimal: that of the
        # cluster, or of this server; empty without a data directory. And who knows what is out.
        self.store_name: str = ""
        self.unsettled: UnsettledSource = UnsettledSource()
        # Of a cluster member: the other servers.
        self.peers: Peers | None = None
        # Which clients are served. A cluster member has a `ConnectionObserver` here.
        self.admission: Admission = Admission()
        # What one transaction may publish in a cluster, where it is one operation; 0 without one.
        self.transaction_bytes_max: int = 0

    def why_no_peer(self) -> str:
        """Why no further server may log in; empty if one may."""
        return TOO_MANY_PEERS if self.peer_count >= PEER_CONNECTIONS_MAX else ""

    def new_holder(self) -> int:
        """A number for a channel or a link, under which queues note what is out with it. Numbers of
        all dialects are of one kind, and none is used again.
        """
        self._holder_count += 1
        return self._holder_count

    def hold_until_durable(self, outgoing: Outgoing) -> None:
        """Send nothing more to this client before what it asked for is durable."""
        self.held_list.append(outgoing)

    def with_name(self, properties: dict[str, object]) -> dict[str, object]:
        """What a peer is told about this server, under the name that an operator has chosen."""
        chosen = self.state.cluster_name("")
        return {**properties, CLUSTER_NAME: chosen} if chosen else properties

    def principal(self, user: str, vhost: VirtualHost, access: Access) -> Principal:
        if isinstance(access, TokenAccess):
            # It is renewed with its connection, so it is not shared.
            return Principal(user, vhost, access, self.state.topic_access)
        key = (user, vhost.name)
        known = self.principals.get(key)
        if known is None or known.vhost is not vhost or known.access is not access:
            known = Principal(user, vhost, access, self.state.topic_access)
            self.principals[key] = known
        return known
