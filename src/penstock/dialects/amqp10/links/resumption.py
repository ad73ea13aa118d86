"""Resumes a suspended link: whether an attach comes back to it, and what becomes of what it had sent.

Both sides name their unsettled deliveries in their attaches (specification 2.6.13). For a link on
which we send, the receiver's map says what to do with each delivery that the suspended link kept:

    the receiver has           we
    an outcome                 apply it, and say that it is settled
    nothing final              send it again, with its tag, as the same delivery
    no entry in its map        send it again, with its tag: it never came, or its settlement is lost

What the receiver has and we have not is settled: it learns so from our map. For a link on which we
receive, our map tells the producer the outcomes that it has not heard.

Invariant: a suspended link is resumed, or it has expired and the attach makes a new one.
"""

from penstock.broker.errors import Refusal
from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.deliver import LinkConsumer, Resumption
from penstock.dialects.amqp10.links.outcomes import apply_outcome, is_final
from penstock.dialects.amqp10.links.source_link import SuspendedSource
from penstock.dialects.amqp10.links.target_end import SuspendedTarget
from penstock.dialects.amqp10.links.unsettled_map import put_unsettled
from penstock.dialects.amqp10.nodes.nodes import TargetNode, resume_source, resume_target
from penstock.wire.amqp10.performatives_generated import Attach, Target
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.sending import SendingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite

# Links on which we send.


def resumes_source(found: SuspendedSource, attach: Attach, now: int) -> bool:
    """Whether the attach of a receiver goes on with the suspended link; otherwise that is over."""
    source = attach.source
    if source is None or found.node.is_for(source):
        try:
            resume_source(found.node)
        except Refusal:
            pass
        else:
            return True
    found.expired(now)
    return False


def resume_deliveries(
    context: ConnectionContext,
    session: Session,
    link: SendingLink,
    attach: Attach,
    found: SuspendedSource,
    consumer: LinkConsumer,
    answer: Attach,
) -> None:
    """Go on with what the suspended link had sent; our map goes into the answer."""
    maps = _compare(found, attach, context.now)
    consumer.resume(maps.resumptions, maps.unasked)
    if any([resumption.entry is None for resumption in maps.resumptions]):
        # Said to be settled only when that would survive a power loss.
        context.container.hold_until_durable(context.outgoing)
    link.first_tag = found.next_tag
    put_unsettled(answer, maps.ours, session.frame_max)


class _ComparedMaps:
    """The result of comparing two maps of unsettled deliveries."""

    def __init__(self) -> None:
        self.ours: dict[bytes, Composite | None] = {}
        self.resumptions: list[Resumption] = []
        self.unasked: list[Resumption] = []


def _compare(found: SuspendedSource, attach: Attach, now: int) -> _ComparedMaps:
    """Compare with the receiver's map: what it has decided is done here, the rest is to be sent
    again.
    """
    theirs: dict[bytes, Composite | None] = attach.unsettled or {}
    maps = _ComparedMaps()
    queue = found.node.queue
    for delivery in found.kept:
        known = delivery.tag in theirs
        state = theirs.get(delivery.tag)
        if known and is_final(state):
            apply_outcome(queue, delivery.entry, found.holder, state, now)
            settled = Resumption(delivery.tag, None, True)
            settled.outcome = state
            maps.ours[delivery.tag] = state
            maps.resumptions.append(settled)
        elif known or not attach.incomplete_unsettled:
            maps.ours[delivery.tag] = None
            maps.resumptions.append(Resumption(delivery.tag, delivery.entry, known))
        else:
            # The receiver may have it without having said so. It attaches once more, and is to
            # say then.
            maps.ours[delivery.tag] = None
            maps.unasked.append(Resumption(delivery.tag, delivery.entry, False))
    found.kept = []
    return maps


# Links on which we receive.


def resumes_target(found: SuspendedTarget, target: Target, now: int) -> bool:
    """Whether the attach of a producer goes on with the suspended link; otherwise that is over."""
    if _is_same(found.node, target):
        resume_target(found.node)
        return True
    found.expired(now)
    return False


def resume_outcomes(
    session: Session,
    link: ReceivingLink,
    attach: Attach,
    found: SuspendedTarget,
    remembers: bool,
) -> dict[bytes, Composite | None]:
    """Go on with the outcomes that the producer has not heard; returns our map."""
    return found.answers.resume(session, link, attach.unsettled or {}, remembers)


def _is_same(node: TargetNode, target: Target) -> bool:
    if target.dynamic:
        return False
    return target.address == node.answered.address
