"""The broker's refusals as AMQP 1.0 error conditions.

The caller chooses the level: a refused attach ends the link, a refused open ends the connection. A
refusal ends no more than it has to.
"""

from penstock.broker.errors import (
    AccessRefused,
    CommandInvalid,
    NotAllowed,
    NotFound,
    NotImplementedHere,
    NotRoot,
    PreconditionFailed,
    Refusal,
    ResourceError,
    ResourceLocked,
)
from penstock.broker.events import EventKind
from penstock.wire.amqp10 import conditions_generated as conditions
from penstock.wire.amqp10.errors import LinkFault
from penstock.wire.amqp10.performatives_generated import Error, Rejected


def condition_of(refusal: Refusal) -> str:
    if isinstance(refusal, NotFound):
        return conditions.NOT_FOUND
    if isinstance(refusal, PreconditionFailed):
        return conditions.PRECONDITION_FAILED
    if isinstance(refusal, AccessRefused):
        return conditions.UNAUTHORIZED_ACCESS
    if isinstance(refusal, ResourceLocked):
        return conditions.RESOURCE_LOCKED
    if isinstance(refusal, NotAllowed):
        return conditions.NOT_ALLOWED
    if isinstance(refusal, CommandInvalid):
        return conditions.INVALID_FIELD
    if isinstance(refusal, NotImplementedHere):
        return conditions.NOT_IMPLEMENTED
    if isinstance(refusal, NotRoot):
        return conditions.CONNECTION_FORCED
    if isinstance(refusal, ResourceError):
        return conditions.RESOURCE_LIMIT_EXCEEDED
    return conditions.INTERNAL_ERROR


def link_fault_of(refusal: Refusal) -> LinkFault:
    return LinkFault(condition_of(refusal), refusal.text)


def rejection_of(refusal: Refusal) -> Rejected:
    """The outcome of a message that cannot be published to its address."""
    return Rejected(Error(condition_of(refusal), refusal.text))


def kind_of(fault: LinkFault) -> EventKind:
    """What the log calls the end of a link."""
    if fault.condition == conditions.UNAUTHORIZED_ACCESS and not fault.from_peer:
        return EventKind.ACCESS_DENIED
    return EventKind.LINK_ERROR
