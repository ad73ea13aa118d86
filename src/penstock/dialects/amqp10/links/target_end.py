"""Our end of an incoming link: attached, suspended, gone."""

from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.link_end import LinkEnd, LinkKey, Parting
from penstock.dialects.amqp10.links.suspended_links import (
    ResumableLinks,
    SuspendedLink,
    may_suspend,
)
from penstock.dialects.amqp10.links.target_link import TargetLink
from penstock.dialects.amqp10.links.target_outcomes import TargetOutcomes
from penstock.dialects.amqp10.nodes.nodes import Ending, TargetNode, release_target
from penstock.dialects.facts import ChannelFacts
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.serial import difference
from penstock.wire.amqp10.session import Session


class TargetEnd(LinkEnd):
    """Held by its session and by `ResumableLinks` while it is attached."""

    def __init__(
        self,
        context: ConnectionContext,
        links: ResumableLinks,
        session: Session,
        link: ReceivingLink,
        node: TargetNode,
        answers: TargetOutcomes,
    ) -> None:
        super().__init__(context, session, link)
        self._links: ResumableLinks = links
        self._node: TargetNode = node
        self._answers: TargetOutcomes = answers
        # Of attachments before this one.
        self._answered_before: int = answers.answered()
        self._sequence_before: int = answers.sequence
        self.listener: TargetLink = TargetLink(context, node.address, answers)

    def add_to(self, facts: ChannelFacts) -> None:
        facts.published = max(facts.published, 0) + self._received()
        facts.confirmed = max(facts.confirmed, 0) + self._answers.answered() - self._answered_before
        facts.received_confirm += self._answers.sequence - self._sequence_before

    def _received(self) -> int:
        """Deliveries of this attachment."""
        link = self.wire_link
        began = 0 if link.remote is None else link.remote.initial_delivery_count or 0
        return difference(link.delivery_count, began)

    def alarm_changed(self) -> None:
        self._answers.give_credit()

    def interceptor_changed(self) -> None:
        self.listener.interceptor_changed()

    def ended(self, parting: Parting, now: int) -> None:
        self._links.detached(self)
        container = self.context.container
        container.received_on_ended += self._received()
        container.confirmed_on_ended += self._answers.answered() - self._answered_before
        container.received_confirm_on_ended += self._answers.sequence - self._sequence_before
        if may_suspend(self._node, parting):
            self._answers.suspend()
            release_target(self._node, Ending.SUSPENDED, now)
            suspended = SuspendedTarget(
                self.key, self._node, self.session, self.context.number, self._answers
            )
            self._links.suspend(suspended, parting, now)
            return
        self._answers.closed = True
        is_closed = parting is Parting.CLOSED
        release_target(self._node, Ending.CLOSED if is_closed else Ending.EXPIRED, now)


class SuspendedTarget(SuspendedLink):
    """A producer that is detached. Its messages are in their queues; their outcomes are here."""

    def __init__(
        self,
        key: LinkKey,
        node: TargetNode,
        session: Session,
        connection_number: int,
        answers: TargetOutcomes,
    ) -> None:
        super().__init__(key, node, session, connection_number)
        self.node: TargetNode = node
        self.answers: TargetOutcomes = answers

    def expired(self, now: int) -> None:
        self.forgotten(now)
        release_target(self.node, Ending.EXPIRED, now)

    def forgotten(self, now: int) -> None:
        self.answers.closed = True
