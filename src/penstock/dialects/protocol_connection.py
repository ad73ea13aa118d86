"""One client's connection as the node sees it, whatever protocol the client speaks."""

from collections.abc import Iterator

from mypy_extensions import trait

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.facts import ChannelFacts, ConnectionFacts, ConsumerFacts
from penstock.dialects.unsettled_part import UnsettledPart


@trait
class ProtocolConnection:
    """Implemented by the connection of each dialect; held by `connection.Connection`, through which
    the node reaches it. A trait, because a dialect's connection is also its wire's listener.
    """

    def received(self, data: bytes, now: int) -> None:
        """Input from the client; empty to continue with what was kept when its turn was over."""
        raise NotImplementedError

    def tick(self, now: int) -> None:
        """A few times a second: heartbeats and time-outs."""
        raise NotImplementedError

    def lost(self, now: int) -> None:
        """The transport is gone."""
        raise NotImplementedError

    def failed(self, now: int) -> None:
        """An internal error occurred while this connection was served: it is closed."""
        raise NotImplementedError

    def stop(self, reason: str, now: int) -> None:
        """The server closes this connection: it stops, or an operator asked for it."""
        raise NotImplementedError

    def turn_away(self, reason: str, now: int) -> None:
        """Another server of the cluster has to serve this client, which has to try there."""
        raise NotImplementedError

    def admit(self, now: int) -> None:
        """This server may serve clients: the open that was held is answered."""
        raise NotImplementedError

    def is_peer(self) -> bool:
        """Whether the other end is a server of this cluster, not a client."""
        raise NotImplementedError

    def alarm_changed(self, now: int) -> None:
        """Memory or disk ran low, or is fine again."""
        raise NotImplementedError

    def interceptor_changed(self) -> None:
        """Publishing is intercepted from now on, or no longer."""
        raise NotImplementedError

    # Messages that an alarm has stopped in the middle; see `node.unfinished`.

    def unfinished_octets(self) -> int:
        """The size of messages that an alarm has stopped in the middle, or that it completes
        now.
        """
        raise NotImplementedError

    def is_finishing(self) -> bool:
        """Whether it may complete a message, though an alarm lasts."""
        raise NotImplementedError

    def finish(self, now: int) -> None:
        """Its turn to complete a message, though an alarm lasts."""
        raise NotImplementedError

    def give_up_unfinished(self, now: int) -> None:
        """It did not complete its message when it was its turn: it is closed."""
        raise NotImplementedError

    # What it has.

    def vhost_name(self) -> str:
        """The virtual host it has opened; empty before."""
        raise NotImplementedError

    def user_name(self) -> str:
        """Who has logged in; empty before."""
        raise NotImplementedError

    def channel_count(self) -> int:
        """Open channels; 0 for a protocol that has none."""
        raise NotImplementedError

    # For whoever operates the broker.

    def facts(self) -> ConnectionFacts:
        raise NotImplementedError

    def channel_facts(self) -> Iterator[ChannelFacts]:
        """Made one by one: there may be pauses between them."""
        raise NotImplementedError

    def consumer_facts(self) -> Iterator[ConsumerFacts]:
        """As those of channels."""
        raise NotImplementedError

    def held_bytes(self, message_bytes: int) -> int:
        """Octets that it keeps in memory: unfinished input, and what is not settled or not
        committed. Each message costs `message_bytes` beside its body.
        """
        raise NotImplementedError

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        """Append every delivery that is out with its consumers."""
        raise NotImplementedError

    def unsettled_parts(self) -> list[UnsettledPart]:
        """The same deliveries, for whoever takes them bit by bit."""
        raise NotImplementedError
