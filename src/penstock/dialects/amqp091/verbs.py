"""Which function implements a channel's method. The table of contents of this dialect."""

from typing import Final

from penstock.dialects.amqp091 import subscribe, topology, transaction
from penstock.dialects.amqp091.acknowledge import Outcome, settle, stage_tag
from penstock.dialects.amqp091.channel import Channel
from penstock.dialects.amqp091.staged import StagedSettlement
from penstock.dialects.turn import (
    ACKNOWLEDGED_PER_UNIT,
    METHOD_UNITS,
    REJECTED_UNITS,
    RETURNED_PER_UNIT,
    TOPOLOGY_UNITS,
)
from penstock.wire.amqp091 import methods_generated as wire
from penstock.wire.amqp091.errors import ConnectionFault
from penstock.wire.amqp091.reply_codes_generated import COMMAND_INVALID, NOT_IMPLEMENTED

# Answers to the server's methods, and the closing of a channel: there is nothing to do.
_ANSWERED_BY_THE_WIRE: Final = (
    wire.BasicCancelOk,
    wire.ChannelFlowOk,
    wire.ChannelClose,
    wire.ChannelCloseOk,
)


def settle_or_stage(channel: Channel, tag: int, multiple: bool, outcome: Outcome, now: int) -> None:
    """Acknowledgements inside a transaction wait for its commit."""
    if channel.transaction is None:
        if outcome is Outcome.ACKNOWLEDGED and not multiple:
            settle(channel.deliveries, tag, False, outcome, now)
            return
        before = channel.deliveries.unacknowledged.count
        settle(channel.deliveries, tag, multiple, outcome, now)
        _charge(channel, before - channel.deliveries.unacknowledged.count, outcome)
        return
    stage_tag(channel.deliveries, channel.transaction.tags, tag, multiple)
    channel.transaction.settlements.append(StagedSettlement(tag, multiple, outcome))


def _charge(channel: Channel, count: int, outcome: Outcome) -> None:
    if outcome is Outcome.ACKNOWLEDGED:
        units = count // ACKNOWLEDGED_PER_UNIT
    elif outcome is Outcome.REJECTED:
        units = count * REJECTED_UNITS
    else:
        units = count // RETURNED_PER_UNIT
    if units:
        channel.turn.charge(units)


def perform(channel: Channel, method: wire.Method, now: int) -> None:
    """Do what a method on an open channel says."""
    channel.turn.charge(METHOD_UNITS)
    if isinstance(method, wire.BasicNack):
        outcome = Outcome.REQUEUED if method.requeue else Outcome.REJECTED
        settle_or_stage(channel, method.delivery_tag, method.multiple, outcome, now)
    elif isinstance(method, wire.BasicReject):
        outcome = Outcome.REQUEUED if method.requeue else Outcome.REJECTED
        settle_or_stage(channel, method.delivery_tag, False, outcome, now)
    elif isinstance(method, wire.BasicGet):
        subscribe.get(channel, method, now)
    elif isinstance(method, wire.BasicConsume):
        subscribe.consume(channel, method, now)
    elif isinstance(method, wire.BasicCancel):
        subscribe.cancel(channel, method, now)
    elif isinstance(method, wire.BasicQos):
        subscribe.set_prefetch(channel, method)
    elif isinstance(method, wire.BasicRecover):
        subscribe.recover(channel, method.requeue, True, now)
    elif isinstance(method, wire.BasicRecoverAsync):
        subscribe.recover(channel, method.requeue, False, now)
    elif isinstance(method, wire.TxSelect):
        transaction.select_transaction(channel)
    elif isinstance(method, wire.TxCommit):
        transaction.commit(channel, now)
    elif isinstance(method, wire.TxRollback):
        transaction.rollback(channel)
    elif isinstance(method, wire.ConfirmSelect):
        transaction.select_confirms(channel, method)
    elif isinstance(method, wire.ChannelFlow):
        _flow(channel, method)
    elif not isinstance(method, _ANSWERED_BY_THE_WIRE):
        _perform_topology(channel, method, now)


def _perform_topology(channel: Channel, method: wire.Method, now: int) -> None:
    channel.turn.charge(TOPOLOGY_UNITS)
    if isinstance(method, wire.QueueDeclare):
        topology.declare_queue(channel, method, now)
    elif isinstance(method, wire.QueueBind):
        topology.bind_queue(channel, method, now)
    elif isinstance(method, wire.QueueUnbind):
        topology.unbind_queue(channel, method, now)
    elif isinstance(method, wire.QueueDelete):
        topology.delete_queue(channel, method, now)
    elif isinstance(method, wire.QueuePurge):
        topology.purge_queue(channel, method, now)
    elif isinstance(method, wire.ExchangeDeclare):
        topology.declare_exchange(channel, method, now)
    elif isinstance(method, wire.ExchangeDelete):
        topology.delete_exchange(channel, method, now)
    elif isinstance(method, wire.ExchangeBind):
        topology.bind_exchange(channel, method, now)
    elif isinstance(method, wire.ExchangeUnbind):
        topology.unbind_exchange(channel, method, now)
    elif isinstance(method, wire.AccessRequest):
        # Clients of AMQP 0-8 ask for a ticket, which is never checked.
        channel.wire.send_method(channel.number, wire.AccessRequestOk(1))
    else:
        raise ConnectionFault(COMMAND_INVALID, f"unimplemented method {method!r}")


def _flow(channel: Channel, method: wire.ChannelFlow) -> None:
    if not method.active:
        raise ConnectionFault(NOT_IMPLEMENTED, "active=false")
    channel.wire.send_method(channel.number, wire.ChannelFlowOk(True))
