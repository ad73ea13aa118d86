"""One session's links: which kind of node an attach means, and what ends with the session."""

from penstock.broker.entry import QueueEntry
from penstock.broker.errors import PreconditionFailed
from penstock.broker.queues.message_queue import MessageQueue
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.coordinator import CoordinatorEnd, attach_coordinator
from penstock.dialects.amqp10.links.link_end import LinkEnd, Parting
from penstock.dialects.amqp10.links.management_link import (
    REQUEST_CREDIT,
    ManagementEnd,
    ManagementPair,
    Requests,
    Responses,
)
from penstock.dialects.amqp10.links.source_attach import attach_source
from penstock.dialects.amqp10.links.suspended_links import ResumableLinks
from penstock.dialects.amqp10.links.target_attach import attach_target
from penstock.dialects.amqp10.management.answering import ADDRESSES
from penstock.dialects.facts import ChannelFacts
from penstock.wire.amqp10.link import SND_SETTLED, Link
from penstock.wire.amqp10.performatives_generated import Attach, Coordinator, Target
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sending import SendingLink
from penstock.wire.amqp10.session import Session


class SessionLinks:
    """Held by its connection from begin to end."""

    def __init__(self, context: ConnectionContext, links: ResumableLinks, session: Session) -> None:
        self._context: ConnectionContext = context
        self._links: ResumableLinks = links
        self._session: Session = session
        self._ends: dict[Link, LinkEnd] = {}
        self._pairs: dict[str, ManagementPair] = {}

    def attach(self, link: Link, attach: Attach) -> None:
        """Answer an attach of the peer's. Raises a `Refusal`."""
        if isinstance(link, ReceivingLink):
            self._attach_target(link, attach)
        elif isinstance(link, SendingLink):
            self._attach_source(link, attach)

    def _attach_target(self, link: ReceivingLink, attach: Attach) -> None:
        target = attach.target
        if isinstance(target, Coordinator):
            attach_coordinator(self._context, self._session, link, attach, self._ends)
            return
        if not isinstance(target, Target):
            raise PreconditionFailed("attach of a sender without a target")
        if _is_management(target.address) and not target.dynamic:
            self._attach_requests(link, attach)
            return
        attach_target(self._context, self._links, self._session, link, attach, target, self._ends)

    def _attach_source(self, link: SendingLink, attach: Attach) -> None:
        source = attach.source
        if source is not None and _is_management(source.address) and not source.dynamic:
            self._attach_responses(link, attach)
            return
        attach_source(self._context, self._links, self._session, link, attach, self._ends)

    def _pair(self, name: str) -> ManagementPair:
        pair = self._pairs.get(name)
        if pair is None:
            pair = ManagementPair(self._context)
            self._pairs[name] = pair
        return pair

    def _attach_requests(self, link: ReceivingLink, attach: Attach) -> None:
        pair = self._pair(link.name)
        link.listener = Requests(self._session, pair)
        self._ends[link] = ManagementEnd(self._context, self._session, link, pair)
        self._context.wire.attach(
            self._session,
            link,
            Attach(
                snd_settle_mode=attach.snd_settle_mode,
                source=attach.source,
                target=attach.target,
                properties=_paired(attach),
            ),
        )
        link.offer(REQUEST_CREDIT)
        link.flow_if_needed()

    def _attach_responses(self, link: SendingLink, attach: Attach) -> None:
        pair = self._pair(link.name)
        pair.sender = link
        link.listener = Responses(pair)
        self._ends[link] = ManagementEnd(self._context, self._session, link, pair)
        self._context.wire.attach(
            self._session,
            link,
            Attach(
                snd_settle_mode=SND_SETTLED,
                rcv_settle_mode=attach.rcv_settle_mode,
                source=attach.source,
                target=attach.target,
                properties=_paired(attach),
            ),
        )
        pair.pump()

    def detached(self, link: Link, closed: bool, now: int) -> None:
        end = self._ends.pop(link, None)
        if end is None:
            return
        if end.is_stolen:
            end.ended(Parting.STOLEN, now)
        else:
            end.ended(Parting.CLOSED if closed else Parting.DETACHED, now)
        if isinstance(end, ManagementEnd) and not self._has_end(link.name):
            self._pairs.pop(link.name, None)

    def _has_end(self, name: str) -> bool:
        """Whether the other link of a pair is still there."""
        for link, end in self._ends.items():
            if link.name == name and isinstance(end, ManagementEnd):
                return True
        return False

    def ended(self, parting: Parting, now: int) -> None:
        """The session is over, alone or with its connection."""
        ends = list(self._ends.values())
        self._ends.clear()
        self._pairs.clear()
        # Transactions first: what they give back belongs to links that are still there to keep it.
        for end in ends:
            if isinstance(end, CoordinatorEnd):
                end.ended(parting, now)
        for end in ends:
            if not isinstance(end, CoordinatorEnd):
                end.ended(parting, now)
        self._links.session_ended(self._session, now)

    def ends(self) -> list[LinkEnd]:
        return list(self._ends.values())

    def facts(self) -> ChannelFacts:
        facts = ChannelFacts(self._session.channel)
        for end in self._ends.values():
            end.add_to(facts)
        return facts

    def add_unsettled(self, found: list[tuple[MessageQueue, QueueEntry]]) -> None:
        for end in self._ends.values():
            end.add_unsettled(found)


def _paired(attach: Attach) -> dict[str, object] | None:
    """A client that asks for a pair is told that it has one."""
    if (attach.properties or {}).get("paired") is True:
        return {"paired": True}
    return None


def _is_management(address: object) -> bool:
    return isinstance(address, str) and address in ADDRESSES
