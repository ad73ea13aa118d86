"""Our end of one attached link, as its session and `ResumableLinks` see it.

The transfers of a link are handled by its listener (`TargetLink`, `Settlement`); this module
handles the link as a whole.
"""

from enum import Enum

from mypy_extensions import mypyc_attr

from penstock.broker.entry import QueueEntry
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.facts import ChannelFacts, ConsumerFacts
from penstock.dialects.unsettled_part import UnsettledPart
from penstock.wire.amqp10.conditions_generated import LINK_STOLEN
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.session import Session

# The key of a link beyond its connection: virtual host, user, container, name, and whether we
# receive. Two containers have one link of a name in each direction; containers name themselves, so
# the user and the virtual host belong to it.
LinkKey = tuple[str, str, str, str, bool]


class Parting(Enum):
    """How an attachment ended."""

    CLOSED = "closed"
    DETACHED = "detached, but not closed"
    SESSION_ENDED = "the session ended"
    CONNECTION_ENDED = "the connection ended"
    STOLEN = "the link was attached elsewhere"


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkEnd:
    """Held by its session from attach to detach, and by `ResumableLinks`."""

    def __init__(self, context: ConnectionContext, session: Session, link: Link) -> None:
        self.context: ConnectionContext = context
        self.session: Session = session
        self.wire_link: Link = link
        user = context.user()
        self.key: LinkKey = (
            user.vhost.name,
            user.user,
            context.container_id,
            link.name,
            link.is_receiver,
        )
        # Set while another attachment of the same link takes over.
        self.is_stolen: bool = False

    def ended(self, parting: Parting, now: int) -> None:
        """Nothing is sent or received over this attachment any more."""
        raise NotImplementedError

    def has_room(self) -> None:
        """The socket buffer has room again."""

    def alarm_changed(self) -> None:
        """Memory or disk ran low, or is fine again."""

    def interceptor_changed(self) -> None:
        """Publishing is intercepted from now on, or no longer."""

    def tick(self, now: int) -> None:
        """About once a second."""

    def held_bytes(self, message_bytes: int) -> int:
        """Octets of what is out with its consumer, each message with `message_bytes` beside its
        body.
        """
        return 0

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        """Append everything that is out with its consumer."""

    def add_to(self, facts: ChannelFacts) -> None:
        """Add what came and went over it to the facts of its session."""

    def consumer_facts(self) -> ConsumerFacts | None:
        """None for a link that takes nothing from a queue."""
        return None

    def steal(self, now: int) -> None:
        """The same link attaches elsewhere: this attachment ends, and hands over what is
        unsettled.
        """
        self.is_stolen = True
        self.context.now = now
        fault = LinkFault(LINK_STOLEN, "the link was attached again elsewhere")
        self.context.wire.detach(self.session, self.wire_link, fault, True)


class LinkPart(UnsettledPart):
    """What is out with one link, which is gathered with the first step: clients give a link credit
    for thousands of deliveries, and not for millions.
    """

    def __init__(self, end: LinkEnd) -> None:
        super().__init__()
        self._end: LinkEnd | None = end
        self._found: list[tuple[MessageQueue, QueueEntry]] = []

    def take(self, count: int) -> list[tuple[MessageQueue, QueueEntry]]:
        if self._end is not None:
            self._end.add_unsettled(self._found)
            self._end = None
        taken = self._found[-count:]
        del self._found[-count:]
        self.is_over = not self._found
        return taken
