"""The attach of a receiver: a new link, or one that is resumed."""

from typing import Final

from penstock.broker.arguments import STREAM
from penstock.broker.errors import PreconditionFailed, Refusal
from penstock.broker.queues.reading import Reading
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.browse import BrowsingEnd
from penstock.dialects.amqp10.links.deliver import LinkConsumer
from penstock.dialects.amqp10.links.link_end import LinkEnd, LinkKey
from penstock.dialects.amqp10.links.resumption import resume_deliveries, resumes_source
from penstock.dialects.amqp10.links.source_link import SourceEnd, SuspendedSource
from penstock.dialects.amqp10.links.stream_deliver import StreamLinkConsumer
from penstock.dialects.amqp10.links.suspended_links import ResumableLinks
from penstock.dialects.amqp10.links.unsettled_map import first_free_tag
from penstock.dialects.amqp10.nodes.nodes import (
    Ending,
    SourceNode,
    recall_source,
    release_source,
    resolve_source,
)
from penstock.wire.amqp10.link import SND_SETTLED, Link
from penstock.wire.amqp10.performatives_generated import Attach
from penstock.wire.amqp10.sending import SendingLink
from penstock.wire.amqp10.session import Session

# RabbitMQ's name for the consumer's priority, in the attach's properties.
PRIORITY: Final = "rabbitmq:priority"


def attach_source(
    context: ConnectionContext,
    links: ResumableLinks,
    session: Session,
    link: SendingLink,
    attach: Attach,
    ends: dict[Link, LinkEnd],
) -> None:
    """Answer the attach of a receiver. Raises a `Refusal`."""
    user = context.user()
    key: LinkKey = (user.vhost.name, user.user, context.container_id, link.name, False)
    found = links.find(key, context.now)
    if isinstance(found, SuspendedSource):
        if resumes_source(found, attach, context.now):
            _attach_again(context, links, session, link, attach, found, ends)
            return
    node = _new_node(context, link, attach)
    try:
        if node.browses:
            end: LinkEnd = _browse(context, session, link, node, attach)
            ends[link] = end
            context.wire.attach(session, link, _answer(attach, node))
        else:
            _consume(context, links, session, link, attach, node, None, ends)
    except Refusal:
        release_source(node, Ending.CLOSED, context.now)
        raise


def _new_node(context: ConnectionContext, link: SendingLink, attach: Attach) -> SourceNode:
    user = context.user()
    if attach.source is None:
        return recall_source(
            user,
            user.vhost,
            attach.desired_capabilities,
            context.container_id,
            link.name,
            context.number,
        )
    return resolve_source(
        user,
        user.vhost,
        attach.source,
        context.container_id,
        link.name,
        context.number,
        context.container.entropy,
        context.now,
        context.creates_queues,
    )


def _answer(attach: Attach, node: SourceNode) -> Attach:
    return Attach(
        snd_settle_mode=attach.snd_settle_mode,
        rcv_settle_mode=attach.rcv_settle_mode,
        source=node.answered,
        target=attach.target,
    )


def _browse(
    context: ConnectionContext,
    session: Session,
    link: SendingLink,
    node: SourceNode,
    attach: Attach,
) -> BrowsingEnd:
    end = BrowsingEnd(context, session, link, node, attach.snd_settle_mode == SND_SETTLED)
    link.listener = end.listener
    return end


def _attach_again(
    context: ConnectionContext,
    links: ResumableLinks,
    session: Session,
    link: SendingLink,
    attach: Attach,
    found: SuspendedSource,
    ends: dict[Link, LinkEnd],
) -> None:
    try:
        _consume(context, links, session, link, attach, found.node, found, ends)
    except Refusal:
        found.expired(context.now)
        raise


def _consume(
    context: ConnectionContext,
    links: ResumableLinks,
    session: Session,
    link: SendingLink,
    attach: Attach,
    node: SourceNode,
    found: SuspendedSource | None,
    ends: dict[Link, LinkEnd],
) -> None:
    consumer = _consumer(context, session, link, attach, node)
    if found is not None:
        consumer.holder = found.holder
    queue = node.queue
    if found is not None and found.position is not None:
        queue.resume_consumer(consumer, found.position)
    else:
        selection = node.selection
        reading = Reading(selection.start, selection.cursor, selection.stream_filter)
        queue.subscribe(consumer, reading, context.now)
        if selection.cursor:
            # It is confirmed only when its definition is durable, whoever made it.
            context.container.hold_until_durable(context.outgoing)
    default_outcome = None if attach.source is None else attach.source.default_outcome
    answer = _answer(attach, node)
    if found is not None:
        resume_deliveries(context, session, link, attach, found, consumer, answer)
        default_outcome = default_outcome or found.default_outcome
    # Also of a link that we have forgotten: what the map does not name has tags that we do not know.
    consumer.only_resumes = attach.incomplete_unsettled
    if attach.unsettled:
        link.first_tag = max(link.first_tag, first_free_tag(attach.unsettled))
    end = SourceEnd(context, links, session, link, node, consumer, default_outcome)
    link.listener = end.listener
    ends[link] = end
    links.attached(end)
    context.wire.attach(session, link, answer)
    if link.credit > 0:
        # It gave credit with its attach.
        end.listener.credit_changed(link)


def _consumer(
    context: ConnectionContext,
    session: Session,
    link: SendingLink,
    attach: Attach,
    node: SourceNode,
) -> LinkConsumer:
    settles = attach.snd_settle_mode == SND_SETTLED
    queue = node.queue
    if queue.queue_type is STREAM:
        return StreamLinkConsumer(context, session, link, queue, node.selection, settles)
    priority = (attach.properties or {}).get(PRIORITY, 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise PreconditionFailed(
            f"{PRIORITY} must be a number, not {type(priority).__name__.lower()}"
        )
    return LinkConsumer(context, session, link, queue, node.selection, int(priority), settles)
