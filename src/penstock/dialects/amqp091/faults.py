"""The broker's refusals as AMQP 0-9-1 reply codes, on the level that RabbitMQ uses."""

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
from penstock.wire.amqp091 import reply_codes_generated as codes
from penstock.wire.amqp091.errors import ChannelFault, ConnectionFault, Fault


def fault_of(refusal: Refusal) -> Fault:
    text = refusal.text
    if isinstance(refusal, NotFound):
        return ChannelFault(codes.NOT_FOUND, text)
    if isinstance(refusal, PreconditionFailed):
        return ChannelFault(codes.PRECONDITION_FAILED, text)
    if isinstance(refusal, AccessRefused):
        return ChannelFault(codes.ACCESS_REFUSED, text)
    if isinstance(refusal, ResourceLocked):
        return ChannelFault(codes.RESOURCE_LOCKED, text)
    if isinstance(refusal, NotAllowed):
        return ConnectionFault(codes.NOT_ALLOWED, text)
    if isinstance(refusal, CommandInvalid):
        # As RabbitMQ 3.13 and 4 do: other channels of the connection have nothing to do with it.
        return ChannelFault(codes.PRECONDITION_FAILED, text)
    if isinstance(refusal, NotImplementedHere):
        return ConnectionFault(codes.NOT_IMPLEMENTED, text)
    if isinstance(refusal, ResourceError):
        return ConnectionFault(codes.RESOURCE_ERROR, text)
    if isinstance(refusal, NotRoot):
        return ConnectionFault(codes.CONNECTION_FORCED, text)
    return ConnectionFault(codes.INTERNAL_ERROR, text)


def kind_of(fault: ChannelFault) -> EventKind:
    """What the log calls the end of a channel."""
    if fault.code == codes.ACCESS_REFUSED and not fault.from_peer:
        return EventKind.ACCESS_DENIED
    return EventKind.CHANNEL_ERROR
