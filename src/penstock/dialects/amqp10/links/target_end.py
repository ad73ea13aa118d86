"""Our end of an incoming link: attached, suspended, resumed, gone."""

from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.link_end import LinkEnd, LinkKey, Parting
from penstock.dialects.amqp10.links.resumption import ResumableLinks, SuspendedLink, may_suspend
from penstock.dialects.amqp10.links.target_link import TargetLink
from penstock.dialects.amqp10.links.target_outcomes import TargetOutcomes
from penstock.dialects.amqp10.links.unsettled_map import put_unsettled
from penstock.dialects.amqp10.nodes.nodes import (
    Ending,
    TargetNode,
    release_target,
    resolve_target,
    resume_target,
)
from penstock.dialects.amqp10.nodes.termini import NEVER
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.performatives_generated import Attach, Target
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite


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
        self.listener: TargetLink = TargetLink(context, node.address, answers)

    def alarm_changed(self) -> None:
        self._answers.give_credit()

    def interceptor_changed(self) -> None:
        self.listener.interceptor_changed()

    def ended(self, parting: Parting, now: int) -> None:
        self._links.detached(self)
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
    """A producer that is away. Its messages are in their queues; their outcomes are here."""

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
        self.answers.closed = True
        release_target(self.node, Ending.EXPIRED, now)


def attach_target(
    context: ConnectionContext,
    links: ResumableLinks,
    session: Session,
    link: ReceivingLink,
    attach: Attach,
    target: Target,
    ends: dict[Link, LinkEnd],
) -> None:
    """Answer the attach of a producer. Raises a `Refusal`."""
    user = context.user()
    key: LinkKey = (user.vhost.name, user.user, context.container_id, link.name, True)
    found = links.find(key, context.now)
    known: dict[bytes, Composite | None] = {}
    answers: TargetOutcomes | None = None
    node: TargetNode | None = None
    if isinstance(found, SuspendedTarget):
        if _is_same(found.node, target):
            node = found.node
            answers = found.answers
            resume_target(node)
            known = answers.resume(session, link, attach.unsettled or {}, _remembers(node))
        else:
            found.expired(context.now)
    if node is None or answers is None:
        node = resolve_target(
            user,
            user.vhost,
            target,
            context.number,
            context.container.entropy,
            context.now,
            context.creates_queues,
        )
        answers = TargetOutcomes(context.container, session, link, _remembers(node))
    end = TargetEnd(context, links, session, link, node, answers)
    end.listener.known = set(known)
    link.listener = end.listener
    ends[link] = end
    links.attached(end)
    answer = Attach(
        snd_settle_mode=attach.snd_settle_mode,
        rcv_settle_mode=attach.rcv_settle_mode,
        source=attach.source,
        target=node.answered,
    )
    put_unsettled(answer, known, session.frame_max)
    context.wire.attach(session, link, answer)
    answers.give_credit()


def _is_same(node: TargetNode, target: Target) -> bool:
    if target.dynamic:
        return False
    return target.address == node.answered.address


def _remembers(node: TargetNode) -> bool:
    """Whether a connection that is lost must not make the producer send anything twice."""
    return node.timeout_ms > 0 or node.expiry_policy == NEVER
