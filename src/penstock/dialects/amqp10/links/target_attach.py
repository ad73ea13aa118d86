"""The attach of a producer: a new link, or one that comes back."""

from penstock.dialects.amqp10.context import ConnectionContext
from penstock.dialects.amqp10.links.link_end import LinkEnd, LinkKey
from penstock.dialects.amqp10.links.resumption import resume_outcomes, resumes_target
from penstock.dialects.amqp10.links.suspended_links import ResumableLinks
from penstock.dialects.amqp10.links.target_end import SuspendedTarget, TargetEnd
from penstock.dialects.amqp10.links.target_outcomes import TargetOutcomes
from penstock.dialects.amqp10.links.unsettled_map import put_unsettled
from penstock.dialects.amqp10.nodes.nodes import TargetNode, resolve_target
from penstock.dialects.amqp10.nodes.termini import NEVER
from penstock.wire.amqp10.link import Link
from penstock.wire.amqp10.performatives_generated import Attach, Target
from penstock.wire.amqp10.receiving import ReceivingLink
from penstock.wire.amqp10.session import Session
from penstock.wire.amqp10.values import Composite


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
    if isinstance(found, SuspendedTarget) and resumes_target(found, target, context.now):
        node = found.node
        answers = found.answers
        known = resume_outcomes(session, link, attach, found, _remembers(node))
    else:
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


def _remembers(node: TargetNode) -> bool:
    """Whether outcomes are kept, so that a lost connection causes no duplicates."""
    return node.timeout_ms > 0 or node.expiry_policy == NEVER
